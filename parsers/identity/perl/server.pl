#!/usr/bin/perl
# server.pl FRAMEWORK PORT serves one framework. It prints the version first.
#
# /r answers with an object of what readers have of the request, other paths with what a router takes them for.
use strict;
use warnings;
use Encode ();
use JSON::PP ();

$| = 1;

my ($framework, $port) = @ARGV;

# The values that are there as JSON: a text of characters, or bytes that are UTF-8.
sub json {
    my ($values) = @_;
    my %given;
    for my $name (keys %$values) {
        my $value = $values->{$name};
        next unless defined $value;
        my $text = ref $value ? $value : eval { Encode::decode('UTF-8', my $copy = "$value", Encode::FB_CROAK) };
        $given{$name} = defined $text ? $text : "$value";
    }
    return JSON::PP->new->canonical->ascii->encode(\%given);
}

sub login { my ($text) = @_; return $text =~ s/:/|/r }

if ($framework eq 'plack') {
    require Plack;
    require Plack::Builder;
    require Plack::Request;
    require HTTP::Server::PSGI;
    print "Plack $Plack::VERSION\n";
    my $read = sub {
        my ($env) = @_;
        my $request = Plack::Request->new($env);
        my %values;
        if ($env->{PATH_INFO} eq '/r') {
            my $query = eval { $request->query_parameters->get('token') };
            %values = (key => $env->{HTTP_X_API_KEY}, cookie => $request->cookies->{session}, query => $query, host => $request->uri->host);
        }
        return [200, ['Content-Type', 'application/json'], [json(\%values)]];
    };
    my $login;
    my $basic = Plack::Builder::builder(sub {
        Plack::Builder::enable('Auth::Basic', authenticator => sub { $login = "$_[0]|$_[1]"; 1 });
        sub { [200, ['Content-Type', 'application/json'], [json({ 'basic Auth::Basic' => $login })]] };
    });
    HTTP::Server::PSGI->new(host => '127.0.0.1', port => $port)->run(sub { $_[0]{PATH_INFO} eq '/basic' ? $basic->(@_) : $read->(@_) });
}
elsif ($framework eq 'mojolicious') {
    require Mojolicious;
    require Mojo::Server::Daemon;
    print "Mojolicious $Mojolicious::VERSION\n";
    my $app = Mojolicious->new;
    $app->mode('production');
    $app->log->level('fatal');
    my $routes = $app->routes;
    my $answer = sub { my ($c, $values) = @_; $c->render(data => json($values), format => 'json') };
    $routes->any('/r' => sub {
        my ($c) = @_;
        my $request = $c->req;
        my $url = $request->url->to_abs;
        $answer->($c, {
            key => $request->headers->header('X-Api-Key'), cookie => scalar $c->cookie('session'), query => scalar $c->param('token'),
            host => $url->host, basic => defined $url->userinfo ? login($url->userinfo) : undef,
        });
    });
    $routes->any('/login' => sub { $answer->($_[0], { route => 'login' }) });
    $routes->any('/api/items' => sub { $answer->($_[0], { route => 'items' }) });
    $routes->any('/users/:id' => sub { $answer->($_[0], { route => 'user ' . $_[0]->param('id') }) });
    Mojo::Server::Daemon->new(app => $app, listen => ["http://127.0.0.1:$port"], silent => 1)->run;
}
elsif ($framework eq 'dancer') {
    require HTTP::Server::PSGI;
    eval q{
        package Reader;
        use Dancer2;
        set logger => 'null';
        set show_errors => 0;
        sub answer { content_type 'application/json'; return main::json($_[0]) }
        get '/r' => sub {
            my $cookie = cookie('session');
            answer({
                key => scalar request->header('X-Api-Key'), cookie => $cookie && $cookie->value, query => scalar query_parameters->get('token'),
                host => request->host,
            });
        };
        get '/login' => sub { answer({ route => 'login' }) };
        get '/api/items' => sub { answer({ route => 'items' }) };
        get '/users/:id' => sub { answer({ route => 'user ' . route_parameters->get('id') }) };
        1;
    } or die $@;
    print "Dancer2 $Dancer2::VERSION\n";
    HTTP::Server::PSGI->new(host => '127.0.0.1', port => $port)->run(Reader->to_app);
}
