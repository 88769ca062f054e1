-- The action lua.koala of haproxy.cfg: asks koalagate's /v1/forward-auth about
-- the request, and answers in its place if koalagate refuses. It uses HAProxy's
-- own HTTP client, which came with 2.5, and no libraries.

-- Milliseconds until a question counts as failed. It has to be longer than the
-- server's timeout in haproxy.cfg: that one ends a question, this one has
-- HAProxy ask again, which would count the request twice.
local timeout = 3000

-- Header lines of a request that are handed on; one with more is refused. HAProxy
-- itself takes a hundred (tune.http.maxhdr), and its HTTP client writes past the
-- end of its table where a question has more than that: the process dies.
local most_lines = 80

-- Headers of the client that are not koalagate's to see: those that HAProxy
-- itself says, and those that belong to the client's connection or its body.
local own = {
	["connection"] = true, ["content-length"] = true, ["expect"] = true, ["forwarded"] = true, ["host"] = true,
	["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true,
	["transfer-encoding"] = true, ["upgrade"] = true, ["x-real-ip"] = true,
}

-- Headers of a refusal that HAProxy writes itself.
local transport = {
	["connection"] = true, ["content-length"] = true, ["date"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true,
}

-- list makes a list of a header's values, which HAProxy numbers from 0.
local function list(values)
	local made = {}
	for i = 0, #values do
		if values[i] ~= nil then made[#made + 1] = values[i] end
	end
	return made
end

-- question is the headers of the call: the client's, and what HAProxy knows of
-- the request in place of whatever the client claims; and how many lines the
-- client's are.
local function question(txn)
	local headers, lines = {}, 0
	for name, values in pairs(txn.http:req_get_headers()) do
		if not own[name] and name:sub(1, 12) ~= "x-forwarded-" then
			headers[name] = list(values)
			lines = lines + #headers[name]
		end
	end
	headers["x-forwarded-method"] = { txn.sf:method() }
	headers["x-forwarded-uri"] = { txn.sf:pathq() }
	headers["x-forwarded-host"] = { txn.sf:req_hdr("host") }
	headers["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
	headers["x-forwarded-for"] = { txn.sf:src() }
	return headers, lines
end

-- allow tells the application of the decision, and keeps the client's quota for
-- the response.
local function allow(txn, answer)
	for _, name in ipairs({ "x-koala-decision", "x-koala-rule" }) do
		local values = answer.headers[name]
		if values then txn.http:req_set_header(name, list(values)[1]) end
	end
	for _, name in ipairs({ "ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset" }) do
		local values = answer.headers[name]
		if values then txn:set_var("txn.koala_" .. name:gsub("-", "_"), list(values)[1]) end
	end
end

-- refuse gives the client koalagate's answer as it stands.
local function refuse(txn, answer)
	local reply = txn:reply({ status = answer.status })
	for name, values in pairs(answer.headers) do
		if not transport[name] then
			for _, value in ipairs(list(values)) do reply:add_header(name, value) end
		end
	end
	reply:set_body(answer.body or "")
	txn:done(reply)
end

core.register_action("koala", { "http-req" }, function(txn, url)
	local headers, lines = question(txn)
	if lines > most_lines then
		refuse(txn, { status = 431, headers = {} })
		return
	end
	local client = core.httpclient()
	local asked, answer = pcall(function()
		return client:get({ url = url, headers = headers, timeout = timeout })
	end)
	local status = asked and answer and answer.status or 0
	if status >= 200 and status < 300 then
		allow(txn, answer)
	elseif status >= 300 and (status < 500 or answer.headers["x-koala-decision"]) then
		refuse(txn, answer)
	else -- no koalagate, or none that could decide: haproxy.cfg says what holds then
		txn:set_var("txn.koala_failed", true)
	end
end, 1)
