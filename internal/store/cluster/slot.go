package cluster

import "bytes"

// slots is the number of slots of a Cluster.
const slots = 1 << 14

// slotOf returns the slot of a key of ours, which the content of its first braces
// determines.
func slotOf(key []byte) uint16 {
	tag := key
	if begin := bytes.IndexByte(key, '{'); begin >= 0 {
		if n := bytes.IndexByte(key[begin+1:], '}'); n > 0 {
			tag = key[begin+1 : begin+1+n]
		}
	}
	crc := uint16(0)
	for _, c := range tag {
		crc = crc<<8 ^ crcs[byte(crc>>8)^c]
	}
	return crc % slots
}

// crcs are the checksums (CRC-16/XMODEM) of single bytes.
var crcs = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()
