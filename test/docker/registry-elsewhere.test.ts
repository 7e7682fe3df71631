import assert from "node:assert/strict";
import { createHash, createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
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
  const port = await elsewhere.port();
  // The operator's: it asks for credentials and tells absolute addresses.
  origin = await serve(
    createServer((asked, answer) => {
      if (asked.headers.authorization !== operator) return answer.writeHead(401).end();
      const { url = "", method, headers } = asked;
      const passed = request({ port, path: url, method, headers }, (found) => {
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

/** A door to a registry. @param credentials by host, as the operator wrote them down */
async function openDoor(to: string, credentials: Record<string, typeof own>) {
  const credentialOf = async (host: string) => credentials[host] ?? null;
  const login = new RegistryLogin({ origin: to, credentialOf, allowPrivateNetwork: true });
  const registry = new Registry({ place: async () => ({ origin: to, prefix: "team/agents/", login }), signer, logger });
  const url = await serve(createServer((asked, answer) => registry.door.handle(asked, answer)));
  return { registry, url };
}
const hostOf = (url: string) => new URL(url).host;

const callAs = (url: string, token: string) => (method: string, target: string, body?: string) => {
  const authorization = `Basic ${Buffer.from(`oauth2accesstoken:${token}`).toString("base64")}`;
  const headers = { authorization, "content-type": "application/vnd.oci.image.manifest.v1+json" };
  return fetch(new URL(target, url), { method, headers, ...(body === undefined ? {} : { body }) });
};

test("a registry of the operator's keeps what is pushed, below its prefix, and clients never learn its address or password", {
  skip,
}, async () => {
  const { registry, url } = await openDoor(origin, { [hostOf(origin)]: own });
  const id = randomUUID();
  const call = callAs(url, signAccess(signer, { deploymentId: id, kind: "push" }));
  const put = async (text: string) => {
    const begun = await call("POST", `/v2/r/${id}/agent/blobs/uploads/`);
    const place = begun.headers.get("location") ?? "";
    assert.match(place, new RegExp(`^/v2/r/${id}/agent/blobs/uploads/`));
    const digest = `sha256:${createHash("sha256").update(text).digest("hex")}`;
    assert.equal((await call("PUT", `${place}&digest=${digest}`, text)).status, 201);
    return { digest, size: text.length };
  };
  const config = { mediaType: "application/vnd.oci.image.config.v1+json", ...(await put("{}")) };
  const layers = [{ mediaType: "application/vnd.oci.image.layer.v1.tar", ...(await put("layer")) }];
  const manifest = { schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config, layers };
  const pushed = await call("PUT", `/v2/r/${id}/agent/manifests/1`, JSON.stringify(manifest));
  assert.equal(pushed.status, 201);
  const digest = pushed.headers.get("docker-content-digest");
  assert.equal(await registry.findDigest(id, "agent", "1"), digest);
  const inside = await fetch(`${origin}/v2/team/agents/r/${id}/agent/tags/list`, {
    headers: { authorization: operator },
  });
  assert.deepEqual((await inside.json()) as object, { name: `team/agents/r/${id}/agent`, tags: ["1"] });
  assert.equal((await call("GET", "/v2/")).status, 200);
  await registry.close();
});

test("a token that has expired is let in no more; wrong credentials of the operator are not the client's to correct", {
  skip,
}, async () => {
  const { registry, url } = await openDoor(origin, { [hostOf(origin)]: { ...own, password: "wrong" } });
  const access = { deploymentId: randomUUID(), kind: "push" as const };
  const target = `/v2/r/${access.deploymentId}/agent/tags/list`;
  const expired = signAccess(signer, access, Date.now() - 2 * 3_600_000);
  const refused = await callAs(url, expired)("GET", target);
  assert.equal(refused.status, 401);
  assert.match(refused.headers.get("www-authenticate") ?? "", /^Basic/);
  assert.equal((await callAs(url, signAccess(signer, access))("GET", target)).status, 503);
  await registry.close();
});
