import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash, createHmac, randomUUID, sign } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { signAccess } from "../../src/registry/access-token.ts";
import { Registry } from "../../src/registry/registry.ts";
import { RegistryLogin } from "../../src/registry/registry-login.ts";
import { findRegistryProgram, RegistryProcess } from "../../src/registry/registry-process.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";

const program = findRegistryProgram();
const skip = program === null ? "docker-registry (Debian: apt-get install docker-registry)" : false;
const logger = createLogger("silent");
const own = { username: "operator", password: "hidden" };
const basic = ({ username, password }: typeof own) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
const operator = basic(own);
const mac = (text: string) => createHmac("sha256", "key").update(text).digest("hex");
const signer = { sign: mac, isSigned: (text: string, signature: string) => signature === mac(text) };

const servers: Server[] = [];
const serve = async (server: Server) => {
  servers.push(server.listen(0, "127.0.0.1"));
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

let directory = "";
let elsewhere: RegistryProcess;
let origin = "";
before(async () => {
  if (program === null) return;
  directory = await mkdtemp(path.join(tmpdir(), "pierhead-registry-"));
  elsewhere = new RegistryProcess({ directory, program, logger });
  const socketPath = await elsewhere.socket();
  // The operator's registry: it requires credentials and returns absolute addresses.
  origin = await serve(
    createServer((asked, answer) => {
      if (asked.headers.authorization !== operator) return answer.writeHead(401).end();
      const { url = "", method, headers } = asked;
      const passed = request({ socketPath, path: url, method, headers }, (found) => {
        const { location } = found.headers;
        const absolute = location === undefined ? {} : { location: new URL(location, origin).href };
        found.pipe(answer.writeHead(found.statusCode ?? 500, { ...found.headers, ...absolute }));
      });
      asked.pipe(passed);
    }),
  );
});
after(async () => {
  for (const server of servers) server.close().closeAllConnections();
  await elsewhere?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** A proxy for a registry. @param credentials by host, as the operator configured them */
async function startProxy(to: string, credentials: Record<string, typeof own>, allowPrivateNetwork = true) {
  const credentialOf = async (host: string) => credentials[host] ?? null;
  const login = new RegistryLogin({ origin: to, credentialOf, allowPrivateNetwork });
  const registry = new Registry({
    location: async () => ({ origin: to, prefix: "team/agents/", login }),
    signer,
    logger,
  });
  const url = await serve(createServer((asked, answer) => registry.proxy.handle(asked, answer)));
  return { registry, url };
}
const hostOf = (url: string) => new URL(url).host;

const callAs = (url: string, token: string) => (method: string, target: string, body?: string) => {
  const authorization = `Basic ${Buffer.from(`oauth2accesstoken:${token}`).toString("base64")}`;
  const headers = { authorization, "content-type": "application/vnd.oci.image.manifest.v1+json" };
  return fetch(new URL(target, url), { method, headers, ...(body === undefined ? {} : { body }) });
};

/** @returns its digest */
async function pushImage(call: ReturnType<typeof callAs>, id: string): Promise<string | null> {
  const put = async (text: string) => {
    const begun = await call("POST", `/v2/r/${id}/agent/blobs/uploads/`);
    const location = begun.headers.get("location") ?? "";
    assert.match(location, new RegExp(`^/v2/r/${id}/agent/blobs/uploads/`));
    const digest = `sha256:${createHash("sha256").update(text).digest("hex")}`;
    assert.equal((await call("PUT", `${location}&digest=${digest}`, text)).status, 201);
    return { digest, size: text.length };
  };
  const config = { mediaType: "application/vnd.oci.image.config.v1+json", ...(await put("{}")) };
  const layers = [{ mediaType: "application/vnd.oci.image.layer.v1.tar", ...(await put("layer")) }];
  const manifest = { schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config, layers };
  const pushed = await call("PUT", `/v2/r/${id}/agent/manifests/1`, JSON.stringify(manifest));
  assert.equal(pushed.status, 201);
  return pushed.headers.get("docker-content-digest");
}

test("a registry of the operator stores pushes below its prefix, and clients never see its address or password", {
  skip,
}, async () => {
  const { registry, url } = await startProxy(origin, { [hostOf(origin)]: own });
  const id = randomUUID();
  const call = callAs(url, signAccess(signer, { deploymentId: id, kind: "push" }));
  const digest = await pushImage(call, id);
  assert.equal(await registry.findDigest(id, "agent", "1"), digest);
  const inside = await fetch(`${origin}/v2/team/agents/r/${id}/agent/tags/list`, {
    headers: { authorization: operator },
  });
  assert.deepEqual((await inside.json()) as object, { name: `team/agents/r/${id}/agent`, tags: ["1"] });
  assert.equal((await call("GET", "/v2/")).status, 200);
  await registry.close();
});

test("an expired token is rejected; wrong credentials of the operator are not reported as the client's mistake", {
  skip,
}, async () => {
  const { registry, url } = await startProxy(origin, { [hostOf(origin)]: { ...own, password: "wrong" } });
  const access = { deploymentId: randomUUID(), kind: "push" as const };
  const target = `/v2/r/${access.deploymentId}/agent/tags/list`;
  const expired = signAccess(signer, access, Date.now() - 2 * 3_600_000);
  const refused = await callAs(url, expired)("GET", target);
  assert.equal(refused.status, 401);
  assert.match(refused.headers.get("www-authenticate") ?? "", /^Basic/);
  assert.equal((await callAs(url, signAccess(signer, access))("GET", target)).status, 503);
  await registry.close();
});

/** A token service as distribution's registry trusts it, with a record of the requested scopes. */
async function startTokenService(files: { key: string; certificate: string }) {
  const asked: { authorization: string | undefined; scopes: string[] }[] = [];
  const key = await readFile(files.key);
  const [, chain = ""] = /-----BEGIN CERTIFICATE-----([^-]+)/.exec(await readFile(files.certificate, "utf8")) ?? [];
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const url = await serve(
    createServer((request, answer) => {
      const { searchParams } = new URL(request.url ?? "", "http://service");
      const scopes = searchParams.getAll("scope");
      asked.push({ authorization: request.headers.authorization, scopes });
      if (request.headers.authorization !== operator) return answer.writeHead(401).end();
      const access = scopes.map((scope) => {
        const [type = "", name = "", actions = ""] = scope.split(":");
        return { type, name, actions: actions.split(",") };
      });
      const nowS = Math.floor(Date.now() / 1000);
      const times = { nbf: nowS - 60, iat: nowS - 60, exp: nowS + 300 };
      const claims = {
        iss: "tests",
        aud: searchParams.get("service"),
        sub: "operator",
        jti: randomUUID(),
        ...times,
        access,
      };
      const text = `${part({ typ: "JWT", alg: "ES256", x5c: [chain.replaceAll(/\s/g, "")] })}.${part(claims)}`;
      const signature = sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" }).toString("base64url");
      answer.end(JSON.stringify({ token: `${text}.${signature}`, expires_in: 300 }));
    }),
  );
  return { url: `${url}/token`, asked };
}

test("a registry that takes only tokens is used with those of the service it names, each for the images of one deployment", {
  skip,
}, async () => {
  const [key, certificate] = [path.join(directory, "key.pem"), path.join(directory, "certificate.pem")];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const made = ["-subj", "/CN=tests", "-keyout", key, "-out", certificate];
  execFileSync("openssl", ["req", "-x509", ...curve, ...made], { stdio: "ignore" });
  const service = await startTokenService({ key, certificate });
  const port = await freePort();
  const rootdirectory = path.join(directory, "tokens");
  const config = path.join(directory, "tokens.json");
  const token = { realm: service.url, service: "registry", issuer: "tests", rootcertbundle: certificate };
  const settings = {
    version: "0.1",
    storage: { filesystem: { rootdirectory } },
    http: { addr: `127.0.0.1:${port}`, relativeurls: true },
  };
  await writeFile(config, JSON.stringify({ ...settings, auth: { token } }));
  const child = spawn(program as string, ["serve", config], { stdio: "ignore" });
  try {
    const to = `http://127.0.0.1:${port}`;
    await eventually(
      () =>
        fetch(`${to}/v2/`).then(
          ({ status }) => status,
          () => 0,
        ),
      (status) => status === 401,
    );
    const { registry, url } = await startProxy(to, { [hostOf(service.url)]: own });
    const [id, other] = [randomUUID(), randomUUID()];
    const digest = await pushImage(callAs(url, signAccess(signer, { deploymentId: id, kind: "push" })), id);
    assert.match(digest ?? "", /^sha256:/);
    assert.equal(await registry.findDigest(id, "agent", "1"), digest);
    assert.equal(await registry.findDigest(other, "agent", "1"), null);
    assert.deepEqual(
      [...new Set(service.asked.flatMap(({ scopes }) => scopes))].sort(),
      [
        ...[`repository:team/agents/r/${id}/agent:pull`, `repository:team/agents/r/${id}/agent:pull,push`],
        `repository:team/agents/r/${other}/agent:pull`,
      ].sort(),
    );
    assert.equal(service.asked.length, 3, "a token is reused");
    await registry.close();
    const refusals: [Parameters<typeof startProxy>[1], boolean, RegExp][] = [
      [{ [hostOf(to)]: own }, true, /requires a token of 127\.0\.0\.1:\d+: add credentials for that host/],
      [{ [hostOf(service.url)]: own }, false, /private|not public/i],
      [{ [hostOf(service.url)]: { ...own, password: "wrong" } }, true, /issued no token .*: 401/],
    ];
    for (const [credentials, allowPrivateNetwork, why] of refusals) {
      const count: number = service.asked.length;
      const refused = await startProxy(to, credentials, allowPrivateNetwork);
      await assert.rejects(refused.registry.findDigest(id, "agent", "1"), why);
      const { status } = await callAs(refused.url, signAccess(signer, { deploymentId: id, kind: "push" }))(
        "GET",
        "/v2/",
      );
      assert.equal(status, 503);
      if (!String(why).includes("401")) assert.equal(service.asked.length, count, "nothing was sent there");
      await refused.registry.close();
    }
  } finally {
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
});
