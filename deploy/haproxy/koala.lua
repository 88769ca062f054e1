-- The action lua.koala of haproxy.cfg: checks the request at koalagate's
-- /v1/forward-auth, and answers the request if koalagate refuses it. It uses
-- HAProxy's own HTTP client, available since 2.5, and no libraries.
-- `koalagate gateway haproxy --out DIR` writes both files.
--
-- HAProxy may end an action early: if the client leaves, and for want of time or memory. It
-- then goes on as if the action had ended, so haproxy.cfg requires txn.koala_checked.

-- Milliseconds until a check fails. This must be several times the server's timeout
-- in haproxy.cfg: that timeout ends a check, but after this one HAProxy repeats
-- the check, which would count the request twice. An overloaded HAProxy notices both late.
local timeout = 10000

-- The maximum number of header lines; a request with more is refused. HAProxy itself
-- accepts a hundred (tune.http.maxhdr), and its HTTP client writes past the end of
-- its table if a check has more than that: the process crashes.
local max_lines = 80

-- Headers of the client that are not sent to koalagate: headers that HAProxy sets
-- itself, and headers that concern the client's connection or body.
local excluded = {
	["connection"] = true, ["content-length"] = true, ["expect"] = true, ["forwarded"] = true, ["host"] = true,
	["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true,
	["transfer-encoding"] = true, ["upgrade"] = true, ["x-real-ip"] = true,
}

-- Headers of a refusal that HAProxy sets itself.
local transport = {
	["connection"] = true, ["content-length"] = true, ["date"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true,
}

-- to_list returns a header's values, which HAProxy numbers from 0, as a list.
local function to_list(values)
	local result = {}
	for i = 0, #values do
		if values[i] ~= nil then result[#result + 1] = values[i] end
	end
	return result
end

-- check_headers returns the headers of the check, and the number of header lines
-- from the client. The headers are the client's, except that HAProxy's knowledge of
-- the request replaces the client's claims.
local function check_headers(txn)
	local headers, lines = {}, 0
	for name, values in pairs(txn.http:req_get_headers()) do
		if not excluded[name] and name:sub(1, 12) ~= "x-forwarded-" then
			headers[name] = to_list(values)
			lines = lines + #headers[name]
		end
	end
	headers["x-forwarded-method"] = { txn.sf:method() }
	headers["x-forwarded-uri"] = { txn.sf:pathq() }
	headers["x-forwarded-host"] = { txn.sf:req_fhdr("host") }
	headers["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
	headers["x-forwarded-for"] = { txn.sf:src() }
	return headers, lines
end

-- allow passes the decision to the application, and stores the client's quota for
-- the response.
local function allow(txn, answer)
	for _, name in ipairs({ "x-koala-decision", "x-koala-rule", "x-koala-mark" }) do
		local values = answer.headers[name]
		if values then txn.http:req_set_header(name, to_list(values)[1]) end
	end
	-- The headers of [forward]: one without a value must not arrive, whoever set it before.
	for name in (txn:get_var("txn.koala_forwarded") or ""):gmatch("%S+") do
		local values = answer.headers[name:lower()]
		local value = values and to_list(values)[1] or ""
		if value == "" then txn.http:req_del_header(name) else txn.http:req_set_header(name, value) end
	end
	for _, name in ipairs({ "ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset" }) do
		local values = answer.headers[name]
		if values then txn:set_var("txn.koala_" .. name:gsub("-", "_"), to_list(values)[1]) end
	end
end

-- refuse sends koalagate's answer to the client unchanged.
local function refuse(txn, answer)
	local reply = txn:reply({ status = answer.status })
	for name, values in pairs(answer.headers) do
		if not transport[name] then
			for _, value in ipairs(to_list(values)) do reply:add_header(name, value) end
		end
	end
	reply:set_body(answer.body or "")
	txn:done(reply)
end

core.register_action("koala", { "http-req" }, function(txn, url)
	local headers, lines = check_headers(txn)
	if lines > max_lines then
		refuse(txn, { status = 431, headers = {} })
		return
	end
	local client = core.httpclient()
	local ok, answer = pcall(function()
		return client:get({ url = url, headers = headers, timeout = timeout })
	end)
	local status = ok and answer and answer.status or 0
	if status >= 200 and status < 300 then
		allow(txn, answer)
		txn:set_var("txn.koala_checked", true)
	elseif status >= 300 and (status < 500 or answer.headers["x-koala-decision"]) then
		refuse(txn, answer)
	else -- koalagate is down or could not decide: haproxy.cfg handles this
		txn:set_var("txn.koala_failed", true)
		txn:set_var("txn.koala_checked", true)
	end
end, 1)
