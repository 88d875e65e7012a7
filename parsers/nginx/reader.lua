-- What applications in nginx's Lua read.
local cjson = require "cjson"

local function answer(value)
	local kind = type(value)
	if value == nil or value == cjson.null then
		return "none"
	elseif kind == "string" then
		return "text " .. cjson.encode(value)
	elseif kind == "number" then
		local short = string.format("%.15g", value)
		return "number " .. (tonumber(short) == value and short or string.format("%.17g", value))
	end
	return "other " .. cjson.encode(value)
end

-- What stands at a path of a document. No document but an object has any.
local function at(document, asked)
	if type(document) ~= "table" then
		return nil
	elseif asked ~= "user.email" then
		return document[asked]
	end
	return type(document.user) == "table" and document.user.email or nil
end

local ways = {
	["post-args"] = function(asked)
		local fields, problem = ngx.req.get_post_args()
		if not fields then error(problem) end
		local value = fields[asked]
		return answer(value == true and "" or value) -- a field without "="
	end,
	cjson = function(asked)
		return answer(at(cjson.decode(ngx.req.get_body_data() or ""), asked))
	end,
}

return {
	serve = function(way)
		ngx.req.read_body()
		local ok, text = pcall(ways[way], ngx.req.get_headers()["X-Asked"])
		if not ok then
			ngx.status = 400
			text = "refused: " .. tostring(text)
		end
		ngx.print(text)
	end,
}
