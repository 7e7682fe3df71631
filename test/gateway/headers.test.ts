import assert from "node:assert/strict";
import { test } from "node:test";
import { readTrustedProxies } from "../../src/base/trusted-proxies.ts";
import { exchangeRaw, route, startGateway, startTarget } from "./harness.ts";

test("hides the console's session from agents, rejects their attempts to set it, and sandboxes their pages", async () => {
  let seen: string | undefined;
  await using agent = await startTarget((request, response) => {
    seen = request.headers.cookie;
    const cookies = ["pierhead_session=forged; Path=/", "pierhead_sign_in=forged; Path=/", "own=1"];
    cookies.push("=pierhead_session=forged; Path=/", " = pierhead_session =forged");
    response.writeHead(200, { "set-cookie": cookies, "content-security-policy": "default-src *" }).end();
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const url = `http://127.0.0.1:${site.port}/d/demo/`;
  const asked = { headers: { cookie: "a=1; pierhead_session=phs_secret; b=2; pierhead_sign_in=phs_other" } };
  const byPath = await fetch(url, asked);
  assert.equal(seen, "a=1; b=2");
  assert.deepEqual(byPath.headers.getSetCookie(), [
    "d.demo.pierhead_session=forged; Path=/d/demo",
    "d.demo.pierhead_sign_in=forged; Path=/d/demo",
    "own=1; Path=/d/demo",
  ]);
  assert.match(byPath.headers.get("content-security-policy") ?? "", /^sandbox (?!.*same-origin).*, default-src \*$/);
  await fetch(url, { headers: { cookie: "pierhead_session=phs_secret" } });
  assert.equal(seen, undefined);
  const byName = await exchangeRaw(
    site.port,
    "GET / HTTP/1.1\r\nHost: demo.localhost\r\nCookie: pierhead_session=phs_secret\r\nConnection: close\r\n\r\n",
  );
  assert.ok(!byName.includes("sandbox") && seen === undefined);
});

test("drops hop-by-hop headers and passes the rest in order with repetitions, both ways", async () => {
  let seen: string[] = [];
  await using agent = await startTarget((request, response) => {
    seen = request.rawHeaders;
    const answered = ["Set-Cookie", "a=1", "Set-Cookie", "b=2", "X-Own", "yes", "Connection", "x-secret-hop, close"];
    const dropped = ["X-Secret-Hop", "1", "Proxy-Authenticate", "Basic", "Keep-Alive", "timeout=9"];
    const forged = ["X-Pierhead-Revision", "forged", "X-Request-Id", "forged"];
    response.writeHead(207, "Many Things", [...answered, ...dropped, ...forged, "Content-Length", "2"]);
    response.end("ok");
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));

  const sent = [
    "GET /d/demo/x HTTP/1.1",
    "Host: shop.example:81",
    "Host: second.example",
    "X-B: 2",
    "X-A: 1",
    "X-B: 3",
    "Authorization: Bearer t",
    "Connection: close, X-Listed, content-length",
    "X-Listed: hop",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: keep-alive",
    "Proxy-Authorization: Basic x",
    "TE: trailers",
    "Trailer: X-T",
    "Upgrade-Insecure-Requests: 1",
    "X-Request-Id: client-7",
    "Accept-Encoding: gzip",
  ];
  const answer = await exchangeRaw(site.port, `${sent.join("\r\n")}\r\n\r\n`);

  const pairs = seen.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${seen[at + 1]}`] : []));
  assert.deepEqual(pairs, [
    "host: shop.example:81",
    "X-B: 2",
    "X-A: 1",
    "X-B: 3",
    "Authorization: Bearer t",
    "Upgrade-Insecure-Requests: 1",
    "Accept-Encoding: gzip",
    "x-forwarded-for: 127.0.0.1",
    "x-forwarded-proto: http",
    "x-forwarded-host: shop.example:81",
    "x-forwarded-prefix: /d/demo",
    "x-request-id: client-7",
    "Connection: keep-alive",
  ]);
  const [head = "", body] = answer.split("\r\n\r\n");
  const lines = head.split("\r\n").filter((line) => !/^date:/i.test(line));
  assert.deepEqual(lines, [
    "HTTP/1.1 207 Many Things",
    "x-request-id: client-7",
    "x-pierhead-revision: rev-1",
    "content-security-policy: sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts",
    "Set-Cookie: a=1; Path=/d/demo",
    "Set-Cookie: b=2; Path=/d/demo",
    "X-Own: yes",
    "Content-Length: 2",
    "Connection: close",
  ]);
  assert.equal(body, "ok");
});

test("trusts a client's x-forwarded headers only behind the operator's proxy", async () => {
  const forged = {
    "x-forwarded-for": "10.0.0.9",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "bank.example",
    "x-forwarded-prefix": "/api",
    "x-forwarded-port": "444",
    forwarded: "for=10.0.0.9",
    "x-real-ip": "10.0.0.9",
  };
  await using agent = await startTarget((request, response) => response.end(JSON.stringify(request.headers)));
  const seenWith = async (proxies: string) => {
    await using site = await startGateway({
      trustedProxies: readTrustedProxies(proxies),
      publicUrl: "https://agents.example",
    });
    site.gateway.setRoute(route([agent.target("r1")]));
    const answer = await fetch(`${site.url}/d/demo/`, { headers: forged });
    const seen = (await answer.json()) as Record<string, string>;
    const names = ["for", "proto", "host", "prefix", "port"].map((name) => `x-forwarded-${name}`);
    return [...names, "forwarded", "x-real-ip"].map((name) => seen[name]?.replace(/127\.0\.0\.1:\d+/, "own host"));
  };

  assert.deepEqual(await seenWith("10.0.0.0/8"), [
    "127.0.0.1",
    "https",
    "own host",
    "/d/demo",
    undefined,
    undefined,
    undefined,
  ]);
  assert.deepEqual(await seenWith("127.0.0.0/8"), [
    "10.0.0.9, 127.0.0.1",
    "https",
    "bank.example",
    "/api/d/demo",
    undefined,
    undefined,
    undefined,
  ]);
});

test("replaces a request id that is unsafe in a log", async () => {
  await using agent = await startTarget((request, response) => response.end(request.headers["x-request-id"]));
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  for (const given of ["a b", "x".repeat(129), "{}", ""]) {
    const answer = await fetch(`${site.url}/d/demo/`, { headers: { "x-request-id": given } });
    const id = await answer.text();
    assert.match(id, /^[0-9a-f-]{36}$/);
    assert.equal(answer.headers.get("x-request-id"), id);
  }
});

test("keeps redirects within the agent server under the deployment's path", async () => {
  let location = "";
  await using agent = await startTarget((_, response) => response.writeHead(307, { location }).end());
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const redirect = async (to: string, path: string, host: string) => {
    location = to;
    const answer = await exchangeRaw(site.port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    return /\r\nlocation: (.*)\r\n/i.exec(answer)?.[1];
  };

  assert.equal(await redirect("/docs/", "/d/demo/docs", "a.example"), "/d/demo/docs/");
  assert.equal(await redirect("http://a.example/docs/", "/d/demo/docs", "a.example"), "http://a.example/d/demo/docs/");
  assert.equal(await redirect("/d/demo/docs/", "/d/demo/docs", "a.example"), "/d/demo/docs/");
  assert.equal(await redirect("docs/", "/d/demo/docs", "a.example"), "docs/");
  assert.equal(await redirect("//other.example/x", "/d/demo/docs", "a.example"), "//other.example/x");
  assert.equal(await redirect("https://other.example/x", "/d/demo/x", "a.example"), "https://other.example/x");
  assert.equal(await redirect("/docs/", "/docs", "demo.localhost"), "/docs/");
});

test("sends redirects to the address at which the agent server listens to the address of the deployment", async () => {
  let location = "";
  await using agent = await startTarget((_, response) => response.writeHead(307, { location }).end());
  await using site = await startGateway();
  const { port } = agent.target("r1");
  site.gateway.setRoute(route([agent.target("r1")]));
  const redirect = async (to: string, path: string, host: string) => {
    location = to;
    const answer = await exchangeRaw(site.port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    return /\r\nlocation: (.*)\r\n/i.exec(answer)?.[1];
  };
  const login = `http://localhost:${port}/login?next=a`;
  assert.equal(await redirect(login, "/d/demo/", "a.example"), "/d/demo/login?next=a");
  assert.equal(await redirect(login, "/", "demo.localhost"), "/login?next=a");
  for (const own of [`https://127.0.0.1:${port}`, `http://0.0.0.0:${port}`, `http://[::1]:${port}`])
    assert.equal(await redirect(`${own}/a`, "/", "demo.localhost"), "/a");
  assert.equal(await redirect(`http://localhost:${port}`, "/d/demo/x", "a.example"), "/d/demo/");
  assert.equal(await redirect(`http://localhost:${port}//b.example/`, "/", "demo.localhost"), "/b.example/");
  const others = [
    `http://localhost:${port + 1}/a`,
    `http://b.example:${port}/a`,
    `http://localhost:${port}@b.example/a`,
  ];
  for (const other of others) assert.equal(await redirect(other, "/", "demo.localhost"), other);
});

test("sends redirects to the port of an agent server in its container to the address of the deployment", async () => {
  let location = "";
  await using agent = await startTarget((_, response) => response.writeHead(307, { location }).end());
  await using site = await startGateway({ agentPort: 8_000 });
  site.gateway.setRoute(route([agent.target("r1")]));
  const redirect = async (to: string) => {
    location = to;
    return (await fetch(`${site.url}/d/demo/`, { redirect: "manual" })).headers.get("location");
  };
  assert.equal(await redirect("http://localhost:8000/login"), "/d/demo/login");
  const published = `http://localhost:${agent.port}/login`;
  assert.equal(await redirect(published), published);
});

test("leaves a redirect that brings an authorization code to a program on the user's machine", async () => {
  let location = "";
  await using agent = await startTarget((_, response) => response.writeHead(302, { location }).end());
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  for (const query of ["code=c&state=s", "code=c", "error=access_denied&state=s"]) {
    location = `http://localhost:${agent.port}/callback?${query}`;
    const answer = await fetch(`${site.url}/d/demo/authorize`, { redirect: "manual" });
    assert.equal(answer.headers.get("location"), location);
  }
  location = `http://localhost:${agent.port}/login?error=expired`;
  const answer = await fetch(`${site.url}/d/demo/`, { redirect: "manual" });
  assert.equal(answer.headers.get("location"), "/d/demo/login?error=expired");
});
