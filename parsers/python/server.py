"""server.py FRAMEWORK PORT serves one framework. It prints the version first.

The first element of a path is the way to read, the header X-Asked the name that is asked for.
"""
import json
import sys
from importlib import import_module
from importlib.metadata import version

from answer import NAMES, answer, at, refusal


def serve_wsgi(app, port):
    from waitress import serve
    serve(app, host='127.0.0.1', port=port, threads=2)


def serve_asgi(app, port):
    import uvicorn
    uvicorn.run(app, host='127.0.0.1', port=port, log_level='critical')


def django(port):
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path
    settings.configure(DEBUG=False, SECRET_KEY='x', ALLOWED_HOSTS=['*'], ROOT_URLCONF=__name__, MIDDLEWARE=[], LOGGING_CONFIG=None,
                       INSTALLED_APPS=['rest_framework'], REST_FRAMEWORK={'UNAUTHENTICATED_USER': None,
                                                                         'DEFAULT_AUTHENTICATION_CLASSES': []})
    django.setup()
    from rest_framework.response import Response
    from rest_framework.views import APIView

    def plain(request, way):
        asked = request.headers['X-Asked']
        try:
            value = request.POST.get(asked) if way == 'POST' else at(json.loads(request.body), asked)
            return HttpResponse(answer(value), content_type='text/plain')
        except Exception as error:
            return HttpResponse(refusal(error), content_type='text/plain', status=400)

    class Rest(APIView):
        def post(self, request, form):
            asked = request.headers['X-Asked']
            value = request.data.get(asked) if form else at(request.data, asked)
            return HttpResponse(answer(value), content_type='text/plain')

        def handle_exception(self, error):
            return HttpResponse(refusal(error), content_type='text/plain', status=400)

    global urlpatterns
    urlpatterns = [path('rest-form', Rest.as_view(), {'form': True}), path('rest-json', Rest.as_view(), {'form': False}),
                   path('<way>', plain)]
    serve_wsgi(get_wsgi_application(), port)


def flask(port):
    from flask import Flask, request
    app = Flask('x')

    @app.route('/<way>', methods=['POST'])
    def read(way):
        asked = request.headers['X-Asked']
        try:
            if way == 'form':
                return answer(request.form.get(asked))
            if way == 'values':
                return answer(request.values.get(asked))
            return answer(at(request.get_json(force=True), asked))
        except Exception as error:
            return refusal(error), 400
    serve_wsgi(app, port)


def quart(port):
    from quart import Quart, request
    app = Quart('x')

    @app.route('/<way>', methods=['POST'])
    async def read(way):
        asked = request.headers['X-Asked']
        try:
            if way == 'form':
                return answer((await request.form).get(asked))
            return answer(at(await request.get_json(), asked))
        except Exception as error:
            return refusal(error), 400
    serve_asgi(app, port)


def pyramid(port):
    from pyramid.config import Configurator
    from pyramid.response import Response

    def read(request):
        asked, way = request.headers['X-Asked'], request.matchdict['way']
        try:
            value = at(request.json_body, asked) if way == 'json' else request.params.get(asked)
            return Response(answer(value), content_type='text/plain')
        except Exception as error:
            return Response(refusal(error), content_type='text/plain', status=400)
    config = Configurator()
    config.add_route('way', '/{way}')
    config.add_view(read, route_name='way')
    serve_wsgi(config.make_wsgi_app(), port)


def bottle(port):
    import bottle
    app = bottle.Bottle()

    @app.post('/<way>')
    def read(way):
        asked = bottle.request.get_header('X-Asked')
        try:
            if way == 'json':
                return answer(at(bottle.request.json, asked))
            return answer(bottle.request.params.getunicode(asked))
        except Exception as error:
            bottle.response.status = 400
            return refusal(error)
    serve_wsgi(app, port)


def falcon(port):
    import falcon

    class Read:
        def on_post(self, request, response, way):
            response.content_type = 'text/plain'
            try:
                response.text = answer(self.value(request, way, request.get_header('X-Asked')))
            except Exception as error:
                response.status, response.text = falcon.HTTP_400, refusal(error)

        def value(self, request, way, asked):
            media = request.get_media()
            if way == 'json':
                return at(media, asked)
            if isinstance(media, dict):
                return media.get(asked)
            value = None
            for part in media:
                if part.name == asked:
                    value = part.text
            return value
    app = falcon.App()
    app.req_options.media_handlers['multipart/form-data'] = falcon.media.MultipartFormHandler()
    app.add_route('/{way}', Read())
    serve_wsgi(app, port)


def cherrypy(port):
    import cherrypy

    class Root:
        @cherrypy.expose
        def params(self, **given):
            return self.text(lambda asked: given.get(asked))

        @cherrypy.expose
        @cherrypy.tools.json_in()
        def json(self, **given):
            return self.text(lambda asked: at(cherrypy.request.json, asked))

        def text(self, read):
            cherrypy.response.headers['Content-Type'] = 'text/plain'
            try:
                return answer(read(cherrypy.request.headers['X-Asked']))
            except Exception as error:
                cherrypy.response.status = 400
                return refusal(error)
    cherrypy.config.update({'server.socket_host': '127.0.0.1', 'server.socket_port': port, 'log.screen': False,
                            'engine.autoreload.on': False, 'environment': 'production'})
    cherrypy.quickstart(Root())


def starlette(port):
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def read(request):
        asked = request.headers['x-asked']
        try:
            if request.path_params['way'] == 'form':
                return PlainTextResponse(answer((await request.form()).get(asked)))
            return PlainTextResponse(answer(at(await request.json(), asked)))
        except Exception as error:
            return PlainTextResponse(refusal(error), 400)
    serve_asgi(Starlette(routes=[Route('/{way}', read, methods=['POST'])]), port)


def fastapi(port):
    from typing import Any, Optional

    from fastapi import FastAPI, Form
    from fastapi.responses import PlainTextResponse
    from pydantic import BaseModel
    app = FastAPI()

    class User(BaseModel):
        email: Any = None

    class Document(BaseModel):
        model: Any = None
        user: Optional[User] = None

    class Counted(BaseModel):
        model: Optional[int] = None

    def route(name, number):
        @app.post('/form/%d' % number, response_class=PlainTextResponse)
        async def form(value: Optional[str] = Form(None, alias=name)):
            return answer(value)
    for number, name in enumerate(NAMES):
        route(name, number)

    @app.post('/json', response_class=PlainTextResponse)
    async def document(given: Document):
        return answer(given.user and given.user.email)

    @app.post('/json/model', response_class=PlainTextResponse)
    async def model(given: Document):
        return answer(given.model)

    @app.post('/int/model', response_class=PlainTextResponse)
    async def count(given: Counted):
        return answer(given.model)

    async def route_by_name(scope, receive, send):
        """Routes stand for names here: a typed parameter has one name."""
        if scope['type'] == 'http':
            asked = dict(scope['headers']).get(b'x-asked', b'').decode()
            if scope['path'] == '/form':
                scope = dict(scope, path='/form/%d' % NAMES.index(asked))
            elif asked == 'model':
                scope = dict(scope, path=scope['path'] + '/model')
        await app(scope, receive, send)
    serve_asgi(route_by_name, port)


def litestar(port):
    from litestar import Litestar, MediaType, Request, Response, post

    @post('/{way:str}', media_type=MediaType.TEXT)
    async def read(way: str, request: Request) -> Response:
        asked = request.headers['x-asked']
        try:
            if way == 'form':
                return Response(answer((await request.form()).get(asked)), status_code=200, media_type='text/plain')
            return Response(answer(at(await request.json(), asked)), status_code=200, media_type='text/plain')
        except Exception as error:
            return Response(refusal(error), status_code=400, media_type='text/plain')
    serve_asgi(Litestar([read]), port)


def tornado(port):
    import tornado.ioloop
    import tornado.web

    class Read(tornado.web.RequestHandler):
        def post(self, way):
            asked = self.request.headers['X-Asked']
            try:
                if way == 'argument':
                    value = self.get_argument(asked, None)
                else:
                    value = at(json.loads(self.request.body), asked)
                self.write(answer(value))
            except Exception as error:
                self.set_status(400)
                self.write(refusal(error))
    tornado.web.Application([(r'/(\w+)', Read)]).listen(port, '127.0.0.1')
    tornado.ioloop.IOLoop.current().start()


def aiohttp(port):
    from aiohttp import web

    async def read(request):
        asked = request.headers['X-Asked']
        try:
            if request.match_info['way'] == 'post':
                return web.Response(text=answer((await request.post()).get(asked)))
            return web.Response(text=answer(at(await request.json(), asked)))
        except Exception as error:
            return web.Response(text=refusal(error), status=400)
    app = web.Application()
    app.router.add_post('/{way}', read)
    web.run_app(app, host='127.0.0.1', port=port, print=None)


def twisted(port):
    from twisted.internet import reactor
    from twisted.web import resource, server

    class Read(resource.Resource):
        isLeaf = True

        def render_POST(self, request):
            asked = request.getHeader('X-Asked')
            try:
                if request.postpath == [b'args']:
                    values = request.args.get(asked.encode())
                    return answer(values and values[0].decode()).encode()
                return answer(at(json.load(request.content), asked)).encode()
            except Exception as error:
                request.setResponseCode(400)
                return refusal(error).encode()
    reactor.listenTCP(port, server.Site(Read()), interface='127.0.0.1')
    reactor.run()


def documents(port):
    """Parsers of JSON that applications call themselves. The way is the module."""
    def app(environ, start):
        way, asked = environ['PATH_INFO'][1:], environ['HTTP_X_ASKED']
        body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
        try:
            module = import_module(way)
            loads = module.json.decode if way == 'msgspec' else module.loads
            status, text = '200 OK', answer(at(loads(body), asked))
        except Exception as error:
            status, text = '400 Bad Request', refusal(error)
        start(status, [('Content-Type', 'text/plain')])
        return [text.encode()]
    serve_wsgi(app, port)


DISTRIBUTIONS = {'django': ('Django', 'djangorestframework'), 'flask': ('Flask', 'Werkzeug'), 'quart': ('Quart', 'Werkzeug'),
                 'pyramid': ('pyramid', 'WebOb'), 'cherrypy': ('CherryPy',), 'fastapi': ('fastapi', 'starlette', 'pydantic'),
                 'starlette': ('starlette', 'python-multipart'), 'twisted': ('Twisted',)}


def distribution_versions(names):
    for name in names:
        try:
            yield name + ' ' + version(name)
        except Exception:  # Debian's older packages do not tell
            pass


if __name__ == '__main__':
    framework = sys.argv[1]
    if framework == 'documents':
        names = sys.argv[3:]
    else:
        names = DISTRIBUTIONS.get(framework, (framework,))
    print(', '.join(distribution_versions(names)), flush=True)
    globals()[framework](int(sys.argv[2]))
