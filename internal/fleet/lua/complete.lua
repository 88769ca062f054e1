-- complete.lua: an upload becomes a blob. KEYS: the upload, the blob. ARGV: the time in
-- ms after which a blob that no version uses expires.
local ttl = redis.call('PTTL', KEYS[2])
redis.call('RENAME', KEYS[1], KEYS[2])
if ttl == -1 then
  redis.call('PERSIST', KEYS[2])
else
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
return 1
