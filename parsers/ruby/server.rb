# server.rb FRAMEWORK PORT serves one framework. It prints the version first.
#
# The first element of a path is the way to read, the header X-Asked the name that is asked for.
require 'json'
require 'logger'
require 'puma'
require 'puma/server'

framework, port = ARGV

# What a way answers: the value that it has.
def answer(value)
  case value
  when nil then 'none'
  when String then 'text ' + JSON.generate(value.dup.force_encoding('UTF-8').scrub)
  when Numeric then "number #{value}"
  when Array then 'other ' + (JSON.generate(value) rescue value.inspect.scrub)
  else 'other ' + value.inspect.scrub
  end
end

# The value of a name in what a framework has made of a form, or of a document.
def pick(from, asked)
  return answer(from[asked]) unless ['user[email]', 'user.email'].include?(asked)
  user = from['user']
  user.respond_to?(:key?) ? answer(user['email']) : 'none'
end

def plain(status, text)
  [status, { 'content-type' => 'text/plain' }, [text]]
end

# Refuses what a framework raises.
def guarded(app)
  lambda do |env|
    app.call(env)
  rescue Exception => error
    plain(400, "refused: #{error.class} #{error.message}".scrub[0, 200])
  end
end

case framework
when 'rack'
  require 'rack'
  version = "rack #{Gem.loaded_specs['rack']&.version || Rack.release}, json #{JSON::VERSION}"
  require 'oj'
  version += ", oj #{Oj::VERSION}"
  app = lambda do |env|
    request, asked = Rack::Request.new(env), env['HTTP_X_ASKED']
    plain(200, case env['PATH_INFO']
               when '/params' then pick(request.params, asked)
               when '/json' then pick(JSON.parse(request.body.read), asked)
               when '/oj' then pick(Oj.load(request.body.read, mode: :compat), asked)
               end)
  end
when 'sinatra'
  require 'sinatra/base'
  version = "sinatra #{Sinatra::VERSION}, rack #{Rack.release}"
  class Reader < Sinatra::Base
    set :protection, false
    set :host_authorization, permitted_hosts: []
    set :show_exceptions, false
    set :raise_errors, true
    set :environment, :production
    post('/params') do
      content_type 'text/plain'
      pick(params, request.env['HTTP_X_ASKED'])
    end
  end
  app = Reader.new
when 'roda'
  require 'roda'
  version = "roda #{Roda::RodaVersion}"
  class Reader < Roda
    plugin :json_parser
    route do |r|
      asked = r.env['HTTP_X_ASKED']
      r.post('params') { pick(r.params, asked) }
      r.post('json') { pick(r.POST, asked) }
    end
  end
  app = Reader.app
when 'grape'
  require 'grape'
  version = "grape #{Grape::VERSION}"
  class Reader < Grape::API
    default_format :txt
    content_type :txt, 'text/plain'
    content_type :json, 'application/json'
    content_type :form, 'application/x-www-form-urlencoded'
    content_type :multipart, 'multipart/form-data'
    parser :txt, nil
    post('params') { content_type 'text/plain'; status 200; pick(params, env['HTTP_X_ASKED']) }
  end
  app = Reader
when 'rails'
  require 'action_controller'
  require 'action_dispatch'
  version = "actionpack #{ActionPack.version}"
  class ReaderController < ActionController::Base
    wrap_parameters false
    def read
      render plain: pick(params, request.headers['X-Asked'])
    end
  end

  # Has what Rails' generators, and its defaults from 7.0 on, set for all controllers: the object is called user.
  class UsersController < ReaderController
    wrap_parameters format: [:json]
  end
  app = ActionDispatch::Routing::RouteSet.new
  app.draw do
    post '/wrapped' => 'users#read'
    post '/:way' => 'reader#read'
  end
end

puts version
$stdout.flush
begin
  events = Puma::LogWriter.null
  server = Puma::Server.new(guarded(app), nil, log_writer: events, min_threads: 1, max_threads: 2)
rescue NameError
  server = Puma::Server.new(guarded(app), Puma::Events.null, min_threads: 1, max_threads: 2)
end
server.add_tcp_listener('127.0.0.1', port.to_i)
server.run.join
