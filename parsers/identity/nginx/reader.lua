-- What nginx's variables, and the arguments as Lua has them, have of a request.
local M = {}

local function escape(c)
	return string.format("\\u%04x", c:byte())
end

local function quote(value)
	return '"' .. tostring(value):gsub('[%c"\\\128-\255]', escape) .. '"'
end

local function answer(values)
	local members = {}
	for name, value in pairs(values) do
		members[#members + 1] = quote(name) .. ":" .. quote(value)
	end
	ngx.say("{", table.concat(members, ","), "}")
end

function M.serve()
	local token = ngx.req.get_uri_args().token
	if type(token) == "table" then
		token = table.concat(token, "|")
	elseif token == true then -- without "="
		token = nil
	end
	answer {
		["key $http_x_api_key"] = ngx.var.http_x_api_key,
		["cookie $cookie_session"] = ngx.var.cookie_session,
		["query $arg_token"] = ngx.var.arg_token,
		["query ngx.req.get_uri_args"] = token,
		["host $host"] = ngx.var.host,
	}
end

function M.route(name)
	answer { route = name }
end

return M
