"""server.py FRAMEWORK PORT serves one framework. It prints the versions first.

/r answers with an object of what readers have of the request, other paths with what a router takes them for.
"""
import sys
from importlib.metadata import version


def serve_wsgi(app, port):
    from gunicorn.app.base import BaseApplication

    class Server(BaseApplication):
        def load_config(self):
            for name, value in {'bind': '127.0.0.1:%s' % port, 'loglevel': 'critical', 'workers': 1, 'worker_tmp_dir': '/tmp'}.items():
                self.cfg.set(name, value)

        def load(self):
            return app
    Server().run()


def attempt(read):
    """A value, or none where a reader refuses the request."""
    try:
        return read()
    except Exception:
        return None


def login(user, password):
    return '%s|%s' % (user or '', password or '')


def subject(header):
    """What PyJWT has of a token behind a scheme, as FastAPI's and Flask's tutorials split it."""
    import jwt
    scheme, _, token = (header or '').partition(' ')
    if scheme.lower() != 'bearer':
        return None
    return attempt(lambda: jwt.decode(token, 'secret', algorithms=['HS256'])['sub'])


def django(port):
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import JsonResponse
    from django.urls import path
    settings.configure(DEBUG=False, SECRET_KEY='x', ALLOWED_HOSTS=['*'], ROOT_URLCONF=__name__, LOGGING_CONFIG=None, DATABASES={},
                       MIDDLEWARE=['django.middleware.common.CommonMiddleware'], INSTALLED_APPS=['rest_framework'],
                       REST_FRAMEWORK={'UNAUTHENTICATED_USER': None, 'DEFAULT_AUTHENTICATION_CLASSES': []})
    django.setup()
    from rest_framework.authentication import BasicAuthentication, TokenAuthentication
    from rest_framework.response import Response
    from rest_framework.views import APIView
    user = type('User', (), {'is_authenticated': True})()

    class Token(TokenAuthentication):
        def authenticate_credentials(self, key):
            return user, key

    class Basic(BasicAuthentication):
        def authenticate_credentials(self, name, password, request=None):
            return user, login(name, password)

    class Kept(APIView):
        reader = None

        def get(self, request):
            return Response({self.reader: request.auth})

    def read(request):
        return JsonResponse({'key': request.headers.get('X-Api-Key'), 'cookie': request.COOKIES.get('session'),
                             'query': request.GET.get('token'), 'host': attempt(request.get_host)})

    def route(name):
        return lambda request, id=None: JsonResponse({'route': name if id is None else name + ' ' + id})
    global urlpatterns
    urlpatterns = [path('r', read), path('login', route('login')), path('api/items', route('items')), path('users/<str:id>', route('user')),
                   path('token', Kept.as_view(authentication_classes=[Token], reader='token TokenAuthentication')),
                   path('basic', Kept.as_view(authentication_classes=[Basic], reader='basic BasicAuthentication'))]
    serve_wsgi(get_wsgi_application(), port)


def flask(port):
    from flask import Flask, request
    from flask_httpauth import HTTPBasicAuth, HTTPTokenAuth
    app, tokens, logins = Flask('x'), HTTPTokenAuth(scheme='Bearer'), HTTPBasicAuth()
    tokens.verify_token(lambda token: {'kept': token})
    logins.verify_password(lambda user, password: {'kept': login(user, password)} if user else None)

    @app.route('/r')
    def read():
        basic = request.authorization
        known = basic and basic.username is not None
        return {'key': request.headers.get('X-Api-Key'), 'cookie': request.cookies.get('session'), 'query': request.args.get('token'),
                'host': request.host, 'basic': login(basic.username, basic.password) if known else None,
                'jwt PyJWT': subject(request.headers.get('Authorization'))}

    app.add_url_rule('/token', 'token', tokens.login_required(lambda: {'token HTTPTokenAuth': tokens.current_user()['kept']}))
    app.add_url_rule('/basic', 'basic', logins.login_required(lambda: {'basic HTTPBasicAuth': logins.current_user()['kept']}))
    app.add_url_rule('/login', 'login', lambda: {'route': 'login'})
    app.add_url_rule('/api/items', 'items', lambda: {'route': 'items'})
    app.add_url_rule('/users/<id>', 'user', lambda id: {'route': 'user ' + id})
    serve_wsgi(app, port)


def bottle(port):
    from bottle import Bottle, request
    app = Bottle()

    @app.route('/r')
    def read():
        return {'key': request.get_header('X-Api-Key'), 'cookie': request.get_cookie('session'), 'query': request.query.get('token'),
                'host': request.urlparts.netloc, 'basic': request.auth and login(*request.auth)}
    app.route('/login', callback=lambda: {'route': 'login'})
    app.route('/api/items', callback=lambda: {'route': 'items'})
    app.route('/users/<id>', callback=lambda id: {'route': 'user ' + id})
    serve_wsgi(app, port)


def falcon(port):
    import falcon

    class Read:
        def on_get(self, request, response):
            response.media = {'key': request.get_header('X-Api-Key'), 'cookie': request.cookies.get('session'),
                              'query': request.get_param('token'), 'host': attempt(lambda: request.host)}

    class Route:
        def __init__(self, name):
            self.name = name

        def on_get(self, request, response, id=None):
            response.media = {'route': self.name if id is None else self.name + ' ' + id}
    app = falcon.App()
    app.add_route('/r', Read())
    app.add_route('/login', Route('login'))
    app.add_route('/api/items', Route('items'))
    app.add_route('/users/{id}', Route('user'))
    serve_wsgi(app, port)


def aiohttp(port):
    from aiohttp import BasicAuth, web

    async def read(request):
        basic = attempt(lambda: BasicAuth.decode(request.headers['Authorization']))
        return web.json_response({'key': request.headers.get('X-Api-Key'), 'cookie': request.cookies.get('session'),
                                  'query': request.query.get('token'), 'host': request.host,
                                  'basic': basic and login(basic.login, basic.password)})

    def route(name):
        async def handler(request):
            return web.json_response({'route': ' '.join([name, *request.match_info.values()])})
        return handler
    app = web.Application()
    for path, handler in {'/r': read, '/login': route('login'), '/api/items': route('items'), '/users/{id}': route('user')}.items():
        app.router.add_route('*', path, handler)
    web.run_app(app, host='127.0.0.1', port=int(port), print=None)


def tornado(port):
    import asyncio
    from tornado.web import Application, RequestHandler

    class Read(RequestHandler):
        def get(self):
            self.write({'key': self.request.headers.get('X-Api-Key'), 'cookie': self.get_cookie('session'),
                        'query': attempt(lambda: self.get_query_argument('token', None)), 'host': self.request.host,
                        'host host_name': self.request.host_name})

    class Route(RequestHandler):
        def initialize(self, name):
            self.name = name

        def get(self, id=None):
            self.write({'route': self.name if id is None else self.name + ' ' + id})

        def log_exception(self, *_):
            pass

    async def serve():
        app = Application([('/r', Read), ('/login', Route, {'name': 'login'}), ('/api/items', Route, {'name': 'items'}),
                           ('/users/([^/]+)', Route, {'name': 'user'})])
        app.listen(int(port), '127.0.0.1')
        await asyncio.Event().wait()
    asyncio.run(serve())


def fastapi(port):
    import uvicorn
    from fastapi import Depends, FastAPI, Request
    from fastapi.security import APIKeyCookie, APIKeyHeader, APIKeyQuery, HTTPBasic, HTTPBearer, OAuth2PasswordBearer
    app = FastAPI()
    key, cookie = APIKeyHeader(name='X-Api-Key', auto_error=False), APIKeyCookie(name='session', auto_error=False)
    query = APIKeyQuery(name='token', auto_error=False)

    @app.get('/r')
    def read(request: Request, key=Depends(key), cookie=Depends(cookie), query=Depends(query)):
        return {'key': key, 'cookie': cookie, 'query': query, 'host': request.headers.get('host'), 'host hostname': request.url.hostname,
                'jwt PyJWT': subject(request.headers.get('Authorization'))}

    @app.get('/token')
    def bearer(token=Depends(HTTPBearer())):
        return {'token HTTPBearer': token.credentials}

    @app.get('/token2')
    def oauth2(token=Depends(OAuth2PasswordBearer(tokenUrl='x'))):
        return {'token OAuth2PasswordBearer': token}

    @app.get('/basic')
    def basic(credentials=Depends(HTTPBasic())):
        return {'basic HTTPBasic': login(credentials.username, credentials.password)}
    for path, name in {'/login': 'login', '/api/items': 'items'}.items():
        app.get(path)(lambda name=name: {'route': name})

    @app.get('/users/{id}')
    def user(id: str):
        return {'route': 'user ' + id}
    uvicorn.run(app, host='127.0.0.1', port=int(port), log_level='critical')


DISTRIBUTIONS = {
    'django': ['Django', 'djangorestframework', 'gunicorn'], 'flask': ['Flask', 'Werkzeug', 'Flask-HTTPAuth', 'PyJWT', 'gunicorn'],
    'bottle': ['bottle', 'gunicorn'], 'falcon': ['falcon', 'gunicorn'], 'aiohttp': ['aiohttp'], 'tornado': ['tornado'],
    'fastapi': ['fastapi', 'starlette', 'uvicorn', 'PyJWT'],
}
framework = sys.argv[1]
print(', '.join('%s %s' % (name, version(name)) for name in DISTRIBUTIONS[framework]), flush=True)
globals()[framework](sys.argv[2])
