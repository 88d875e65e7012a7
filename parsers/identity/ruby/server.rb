# server.rb FRAMEWORK PORT serves one framework. It prints the versions first.
#
# /r answers with an object of what readers have of the request, other paths with what a router takes them for.
require 'json'
require 'logger'
require 'jwt'
require 'rack'
require 'puma'
require 'puma/server'

framework, port = ARGV

def json(values)
  texts = values.compact.transform_values { |value| value.is_a?(String) ? value.dup.force_encoding('UTF-8').scrub : value }
  [200, { 'content-type' => 'application/json' }, [JSON.generate(texts)]]
end

# A value, or none where a reader refuses the request.
def attempt
  yield
rescue StandardError
  nil
end

# What Rack and the gem jwt have of a request.
def read_rack(env)
  request = Rack::Request.new(env)
  basic, header = Rack::Auth::Basic::Request.new(env), env['HTTP_AUTHORIZATION']
  token = attempt { basic.params.to_s if basic.provided? && !basic.basic? }
  {
    'key' => env['HTTP_X_API_KEY'], 'host' => attempt { request.host }, 'cookie' => attempt { request.cookies['session'] },
    'query' => attempt { request.params['token'] }, 'basic' => attempt { basic.credentials.join('|') if basic.provided? && basic.basic? },
    'token Rack::Auth' => token, 'jwt split' => attempt { JWT.decode(header.split.last, 'secret', true, algorithm: 'HS256')[0]['sub'] }
  }
end

case framework
when 'rack'
  version = "rack #{Rack.release}, jwt #{JWT.gem_version}"
  app = ->(env) { json(env['PATH_INFO'] == '/r' ? read_rack(env) : {}) }
when 'sinatra'
  require 'sinatra/base'
  version = "sinatra #{Sinatra::VERSION}, rack #{Rack.release}"
  class Reader < Sinatra::Base
    set :protection, false
    set :host_authorization, permitted_hosts: []
    set :show_exceptions, false
    set :environment, :production
    answer = ->(values) { json(values)[2][0] }
    get('/r') do
      answer.call('query' => params['token'], 'cookie' => request.cookies['session'], 'host' => request.host)
    end
    get('/login') { answer.call('route' => 'login') }
    get('/api/items') { answer.call('route' => 'items') }
    get('/users/:id') { answer.call('route' => "user #{params['id']}") }
  end
  app = Reader.new
when 'rails'
  require 'action_controller'
  require 'action_dispatch'
  version = "actionpack #{ActionPack.version}, rack #{Rack.release}"
  class ReaderController < ActionController::Base
    include ActionController::HttpAuthentication
    def read
      token = attempt { Token.token_and_options(request)&.first }
      basic = attempt { Basic.user_name_and_password(request).join('|') if Basic.has_basic_credentials?(request) }
      render json: json('token authenticate_with_http_token' => token, 'basic authenticate_with_http_basic' => basic,
                        'cookie' => attempt { request.cookies['session'] }, 'query' => attempt { params['token'] },
                        'host' => attempt { request.host }, 'key' => request.headers['X-Api-Key'])[2][0]
    end

    def login = render(json: { 'route' => 'login' })

    def items = render(json: { 'route' => 'items' })

    def user = render(json: { 'route' => "user #{params[:id]}" })
  end
  app = ActionDispatch::Routing::RouteSet.new
  app.draw do
    get '/r' => 'reader#read'
    get '/login' => 'reader#login'
    get '/api/items' => 'reader#items'
    get '/users/:id' => 'reader#user'
  end
end

# Refuses what a framework raises.
guarded = lambda do |env|
  app.call(env)
rescue Exception => error
  [400, { 'content-type' => 'text/plain' }, [error.class.to_s]]
end

puts version
$stdout.flush
begin
  server = Puma::Server.new(guarded, nil, log_writer: Puma::LogWriter.null, min_threads: 1, max_threads: 2)
rescue NameError
  server = Puma::Server.new(guarded, Puma::Events.null, min_threads: 1, max_threads: 2)
end
server.add_tcp_listener('127.0.0.1', port.to_i)
server.run.join
