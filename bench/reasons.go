package main

import "github.com/koalagate/koalagate/bench/report"

// Why goals are missed where they are. A reason is a profile or a count, and is taken anew when the
// code that it names changes.
var (
	handler = &report.Reason{
		Holds: "by 64 callers the door's own code has 21 % of the CPU of a call: 16 % are the engine, among them 10 % the in-process store, half of which waits for the memory of the identity; 4 % write the answer. The rest is gRPC, Go's scheduler and the kernel.",
		Tried: "answers of one allocation instead of four, fields appended by short functions, and frames read without a copy save 1 to 6 % of the instructions of a call.",
	}
	coldHandler = &report.Reason{
		Holds: "a single caller waits for each answer, and code and data leave the caches meanwhile. The door has 29 % of the CPU then: 14 % the decision, 6 % the headers of the answer, 4 % the parameters. Repeated without a pause it takes a sixth of that time.",
		Tried: "reading parameters with 7 % fewer instructions.",
	}
	copies = &report.Reason{
		Holds: "the trial decides again, and copies the counter of each identity that is new to it before: two script calls for each regular one. In these turns almost every identity is new.",
	}
	quotaFilter = &report.Reason{
		Holds: "Envoy's own filter: no request reaches koalagate, and service and Redis use next to nothing per request.",
		Tried: "watching for late timers only while Redis owes a reply took the CPU of service and Redis from 0.08 to 0.00 of the rate limit filter's.",
	}
	largestOfEight = &report.Reason{
		Holds: "it is the largest of eight ratios that vary by a third within a run. The match alone takes 0.2 to 0.4 µs with either number of rules.",
	}
	limitOfCall = &report.Reason{
		Holds: "reading the number of a parameter, or finding the row of a table, takes 80 to 130 ns.",
	}
	loadingRules = &report.Reason{
		Holds: "reading the text takes 55 % of it, half of that for conditions; the index 15 %; warnings 13 %, such as of rules that no request can meet; the garbage collector 8 %. A rule is eight allocations.",
	}
	loadingRows = &report.Reason{
		Holds: "adding the rows takes 46 % of it, a third of that for growing the table; reading CSV 33 %; and 17 % make the text, which a file would not need.",
	}
	tenPatterns = &report.Reason{
		Holds: "an automaton that follows the patterns with a question mark over 128 characters takes 43 % of it, and the search for the texts of the others 38 %.",
	}
	partsOfLease = &report.Reason{
		Holds: "an instance asks for a part some 60 times a second, each alone in its script call, which takes 260,000 instructions, and 340 µs of CPU while callers and service keep both processors busy. At rest Redis takes 3 ms a second, 0.2 µs of a call.",
	}
	allAttacks = &report.Reason{
		Holds: "the instance has 0.9 of the two processors; attackers, callers and Redis share the rest. Of its CPU 30 % read HTTP/2 frames and headers, 24 % carry out calls of gRPC, and 24 % serve HTTP, half of that arguments of Koala's API. Allocations and the garbage collector have a third of all of it.",
	}
	remembering = &report.Reason{
		Holds: "of 1.5 µs for the token in a decision, its digest takes 0.8, to read its header and cut it 0.5, and to find it among those remembered 0.2. The rest are 272 bytes more for the garbage collector, and vary most between rounds.",
	}
	memoryOfLists = &report.Reason{
		Holds: "a list of ten million entries and a table of a million rows do not fit the caches. A look-up of a row waits for memory twice, for the place of the key and for the key, 165 ns each on a calm machine.",
		Tried: "key and row side by side (270 to 330 ns a row instead of 330 to 440, for more code than that is worth), and huge pages (no difference).",
	}
	sharedProcessors = &report.Reason{
		Holds: "three to five programs share two processors, and the work pauses after each 0.2 ms of it. A static file delays decisions as much as a question that computes.",
		Tried: "pauses after each answer, and while an error looks for names: 4 and 9 ms instead of 0.7 and 1.1 s on one processor.",
	}
	libraries = &report.Reason{
		Holds: "half of the CPU of a start initializes libraries: descriptors of protobuf, patterns of the validator, metrics. Of the memory 20 MB are the program itself, which leaves out methods that nothing calls: with them 29.7 MiB were resident instead of 24.4.",
	}
	features = &report.Reason{
		Holds: "a call of the rate limit service in process has 4,700 more instructions. Of them metering frames has 760, the engine 670, the door 610, metrics 390, the service 380, the heaviest identities 370, parameters 300, reading and writing 290.",
		Tried: "shorter reading of frames and writing of answers, 1 to 6 % of the instructions of a call, which these figures include. CPU times of neighboring turns vary by more; bench/earlier.sh counts instructions.",
	}
	noisyRedis = &report.Reason{
		Holds: "by callgrind Redis needs 0.84 of the instructions, which do not depend on the machine; CPU times of neighboring turns differ by up to a half.",
	}
	importedLimits = &report.Reason{
		Holds: "beside rules that count the same, in the same turns, the service takes 9 µs more of a call, and Redis 7. A request to Redis has 197 bytes instead of 146.",
	}
	receipts = &report.Reason{
		Holds: "it sends 120 instead of 42 bytes to Redis, which writes one key more, with what a settlement has to know, and takes 35 µs instead of 19. The service takes 74 instead of 60.",
	}
	difference = &report.Reason{
		Holds: "it is the difference of two decisions of 1 to 2 µs each, whose rounds vary by several times the bound.",
	}
)
