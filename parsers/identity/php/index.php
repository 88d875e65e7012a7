<?php
// Answers with an object of what PHP, Symfony and Laravel have of the request, and what their routers take its path for. All
// servers of PHP fall back to this file; login.php is one that they find by its path.

const LOADER = '/usr/share/php/Illuminate/autoload.php'; // Debian's, of Laravel and Symfony

/** A value, or none where a reader refuses the request. */
function attempt(callable $read)
{
    try {
        return $read();
    } catch (Throwable $error) {
        return null;
    }
}

function symfony_route(Symfony\Component\HttpFoundation\Request $request): string
{
    $routes = new Symfony\Component\Routing\RouteCollection();
    foreach (['login' => '/login', 'items' => '/api/items', 'user' => '/users/{id}'] as $name => $path) {
        $routes->add($name, new Symfony\Component\Routing\Route($path));
    }
    $context = (new Symfony\Component\Routing\RequestContext())->fromRequest($request);
    $route = (new Symfony\Component\Routing\Matcher\UrlMatcher($routes, $context))->match($request->getPathInfo());
    return $route['_route'] . (isset($route['id']) ? ' ' . $route['id'] : '');
}

function laravel_route(Illuminate\Http\Request $request): string
{
    $container = new Illuminate\Container\Container();
    $router = new Illuminate\Routing\Router(new Illuminate\Events\Dispatcher($container), $container);
    $router->get('/login', fn () => 'login');
    $router->get('/api/items', fn () => 'items');
    $router->get('/users/{id}', fn ($id) => 'user ' . $id);
    $route = $router->getRoutes()->match($request);
    return ($route->getAction('uses'))(...array_values($route->parameters()));
}

if (PHP_SAPI === 'cli') {
    require_once LOADER;
    echo 'PHP ', PHP_VERSION, ', Symfony ', Symfony\Component\HttpKernel\Kernel::VERSION,
        ', Laravel ', Illuminate\Foundation\Application::VERSION, "\n";
    exit;
}
$basic = isset($_SERVER['PHP_AUTH_USER']) ? $_SERVER['PHP_AUTH_USER'] . '|' . ($_SERVER['PHP_AUTH_PW'] ?? '') : null;
$values = [
    'key' => $_SERVER['HTTP_X_API_KEY'] ?? null, 'cookie' => $_COOKIE['session'] ?? null, 'query' => $_GET['token'] ?? null,
    'host' => $_SERVER['HTTP_HOST'] ?? null, 'basic' => $basic,
];
if (basename($_SERVER['SCRIPT_NAME']) !== 'index.php') {
    $values['script'] = $_SERVER['SCRIPT_NAME'];
}
require_once LOADER;
$request = Illuminate\Http\Request::capture(); // one of Symfony's
$values += [
    'cookie symfony' => attempt(fn () => $request->cookies->get('session')),
    'query symfony' => attempt(fn () => $request->query->get('token')),
    'host symfony' => attempt(fn () => $request->getHost()),
    'basic symfony' => $request->getUser() === null ? null : $request->getUser() . '|' . $request->getPassword(),
    'token laravel' => attempt(fn () => $request->bearerToken()),
];
if (!isset($values['script'])) {
    $values['route symfony'] = attempt(fn () => symfony_route($request));
    $values['route laravel'] = attempt(fn () => laravel_route($request));
}
header('Content-Type: application/json');
$given = array_filter($values, fn ($value) => $value !== null);
echo json_encode((object) $given, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES | JSON_PARTIAL_OUTPUT_ON_ERROR);
