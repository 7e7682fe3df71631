import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { after, test } from "node:test";
import { gzipSync } from "node:zlib";
import { receiveFile } from "../../src/api/uploads/receive-upload.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { eventually } from "../support/eventually.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const server = createServer((request, response) => t.api.routing(request, response));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
after(() => {
  server.close();
  server.closeAllConnections();
});

const archive = gzipSync(randomBytes(300_000));
const sha256 = createHash("sha256").update(archive).digest("hex");

async function createDeployment(
  name: string,
  more: object = { source: "internal_source", source_config: {}, source_revision_config: {} },
) {
  const { body } = await t.ask({ method: "POST", url: "/v2/deployments", payload: { name, ...more } });
  return body.id as string;
}

async function uploadUrl(deploymentId: string, prefix = ""): Promise<{ upload_url: string; object_path: string }> {
  const headers = { "x-api-key": t.tenant.adminKey };
  const answer = await fetch(`${origin}${prefix}/v2/deployments/${deploymentId}/upload-url`, {
    method: "POST",
    headers,
  });
  assert.equal(answer.status, 200);
  return (await answer.json()) as { upload_url: string; object_path: string };
}

const put = (url: string, body: RequestInit["body"], headers: Record<string, string> = {}) =>
  fetch(url, {
    method: "PUT",
    body,
    headers: { "content-type": "application/gzip", "x-goog-content-length-range": "0,209715200", ...headers },
    duplex: "half",
  } as RequestInit);

test("uploads an archive without a key, stores it for our user only, and a patch names it", async () => {
  const id = await createDeployment("uploaded");
  for (const prefix of ["", "/api-host"]) {
    const { upload_url, object_path } = await uploadUrl(id, prefix);
    assert.ok(upload_url.startsWith(`${origin}${prefix}/uploads/`));
    const answer = await put(upload_url, archive);
    assert.deepEqual([answer.status, await answer.json()], [200, { object_path, size_bytes: archive.length, sha256 }]);
    const file = path.join(t.dataDir, object_path);
    assert.deepEqual(await readFile(file), archive);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const patched = await t.ask({
      method: "PATCH",
      url: `/v2/deployments/${id}`,
      payload: {
        source_revision_config: { source_tarball_path: object_path, langgraph_config_path: "langgraph.json" },
      },
    });
    assert.equal(patched.status, 200, patched.text);
    assert.equal(patched.body.source_revision_config.source_tarball_path, object_path);
  }
  const [directory] = await readdir(path.join(t.dataDir, "uploads"));
  const files = await readdir(path.join(t.dataDir, "uploads", directory ?? ""));
  assert.ok(
    files.every((file) => file.endsWith(".tar.gz")),
    files.join(),
  );
});

test("accepts a body of unknown length", async () => {
  const { upload_url } = await uploadUrl(await createDeployment("chunked"));
  const parts = Array.from({ length: 10 }, (_, index) => archive.subarray(index * 31_000, (index + 1) * 31_000));
  const answer = await put(upload_url, Readable.toWeb(Readable.from(parts)) as RequestInit["body"]);
  const receipt = (await answer.json()) as { sha256: string };
  assert.equal(answer.status, 200);
  assert.equal(receipt.sha256, createHash("sha256").update(Buffer.concat(parts)).digest("hex"));
});

test("an upload is replaceable until a revision uses it; the same archive is always accepted", async () => {
  const id = await createDeployment("replaced");
  const { upload_url, object_path } = await uploadUrl(id);
  assert.equal((await put(upload_url, gzipSync("old"))).status, 200);
  assert.equal((await put(upload_url, archive)).status, 200);
  await t.ask({
    method: "PATCH",
    url: `/v2/deployments/${id}`,
    payload: { source_revision_config: { source_tarball_path: object_path, langgraph_config_path: "langgraph.json" } },
  });
  assert.equal((await put(upload_url, gzipSync("new"))).status, 403);
  assert.equal((await put(upload_url, archive)).status, 200);
  assert.deepEqual(await readFile(path.join(t.dataDir, object_path)), archive);
});

test("an upload that began before a revision took the archive does not replace it", async () => {
  const id = await createDeployment("overtaken");
  const { upload_url, object_path } = await uploadUrl(id);
  const taken = Promise.withResolvers<void>();
  const slowly = async function* () {
    yield gzipSync("new").subarray(0, 5);
    await taken.promise;
    yield gzipSync("new").subarray(5);
  };
  const begun = put(upload_url, Readable.toWeb(Readable.from(slowly())) as RequestInit["body"]);
  const directory = path.dirname(path.join(t.dataDir, object_path));
  await eventually(
    () => readdir(directory).catch(() => []),
    ({ length }) => length > 0,
  );
  assert.equal((await put(upload_url, archive)).status, 200);
  await t.ask({
    method: "PATCH",
    url: `/v2/deployments/${id}`,
    payload: { source_revision_config: { source_tarball_path: object_path, langgraph_config_path: "langgraph.json" } },
  });
  taken.resolve();
  assert.equal((await begun).status, 403);
  assert.deepEqual(await readFile(path.join(t.dataDir, object_path)), archive);
});

test("rejects an altered or expired URL, and the client reads why after sending everything", async () => {
  const { upload_url } = await uploadUrl(await createDeployment("signed"));
  const other = await uploadUrl(await createDeployment("signed-other"));
  const changed = (change: (url: URL) => void) => {
    const url = new URL(upload_url);
    change(url);
    return String(url);
  };
  const large = Buffer.concat([archive, randomBytes(8_000_000)]);
  for (const url of [
    changed(({ searchParams }) => searchParams.set("signature", "x")),
    changed(({ searchParams }) =>
      searchParams.set("signature", new URL(other.upload_url).searchParams.get("signature") ?? ""),
    ),
    changed(({ searchParams }) => searchParams.set("expires_at", "2999-01-01T00:00:00Z")),
    changed(({ searchParams }) => searchParams.set("expires_at", "2020-01-01T00:00:00Z")),
    changed((one) => {
      one.pathname = new URL(other.upload_url).pathname;
    }),
  ]) {
    const answer = await put(url, large);
    assert.deepEqual(
      [answer.status, await answer.json()],
      [403, { detail: "This upload URL is not valid or has expired." }],
    );
  }
  const unsigned = await put(upload_url.split("?")[0] ?? "", large);
  const { detail } = (await unsigned.json()) as { detail: { loc: string[] }[] };
  assert.deepEqual([unsigned.status, detail.map(({ loc }) => loc[1])], [422, ["expires_at", "signature"]]);
});

test("a deleted deployment accepts no archive, not even one in transit, and leaves no file", async () => {
  const deleting = (id: string) => t.ask({ method: "DELETE", url: `/v2/deployments/${id}` });
  const refused = [403, { detail: "This upload URL is not valid or has expired." }];
  // What the reconciler does between the delete request and the end, and after it.
  const ends: Record<string, (id: string) => Promise<unknown>> = {
    asked: deleting,
    finalized: async (id) => {
      await deleting(id);
      await rm(path.join(t.dataDir, "uploads", id), { recursive: true, force: true });
    },
    gone: (id) => t.db.query(sql`delete from deployments where id = ${id}`),
  };
  for (const [name, end] of Object.entries(ends)) {
    for (const isBegun of [false, true]) {
      const id = await createDeployment(`deleted-${name}-${isBegun}`);
      const { upload_url } = await uploadUrl(id);
      const directory = path.join(t.dataDir, "uploads", id);
      const files = () => readdir(directory).catch(() => []);
      const [arrived, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const slowly = async function* () {
        yield archive.subarray(0, 1_000);
        arrived.resolve();
        await ended.promise;
        yield archive.subarray(1_000);
      };
      const upload = isBegun ? put(upload_url, Readable.toWeb(Readable.from(slowly())) as RequestInit["body"]) : null;
      if (isBegun) {
        await arrived.promise;
        await eventually(files, ({ length }) => length > 0);
      }
      await end(id);
      ended.resolve();
      const answer = await (upload ?? put(upload_url, archive));
      assert.deepEqual([answer.status, await answer.json()], refused, `${name} ${isBegun}`);
      assert.deepEqual(await files(), [], `${name} ${isBegun}`);
    }
  }
});

test("rejects a file that is not an archive and leaves nothing behind", async () => {
  const { upload_url, object_path } = await uploadUrl(await createDeployment("broken"));
  for (const [body, because] of [
    ["PK\u0003\u0004 zip", "it is not a gzip archive."],
    ["", "it is empty."],
  ]) {
    const answer = await put(upload_url, body as string);
    assert.deepEqual([answer.status, await answer.json()], [400, { detail: `The upload was refused: ${because}` }]);
  }
  assert.deepEqual(await readdir(path.dirname(path.join(t.dataDir, object_path))), []);
  const path404 = await t.ask({
    method: "PATCH",
    url: `/v2/deployments/${object_path.split("/")[1]}`,
    payload: { source_revision_config: { source_tarball_path: object_path, langgraph_config_path: "langgraph.json" } },
  });
  assert.deepEqual([path404.status, path404.body], [400, { detail: "Invalid source_tarball_path." }]);
});

test("an archive of another deployment is not usable", async () => {
  const [id, other] = [await createDeployment("own"), await createDeployment("foreign")];
  const { upload_url, object_path } = await uploadUrl(other);
  await put(upload_url, archive);
  const answer = await t.ask({
    method: "PATCH",
    url: `/v2/deployments/${id}`,
    payload: { source_revision_config: { source_tarball_path: object_path, langgraph_config_path: "langgraph.json" } },
  });
  assert.deepEqual([answer.status, answer.body], [400, { detail: "Invalid source_tarball_path." }]);
});

test("sources that are not built from archives get no upload URL", async () => {
  const id = await createDeployment("image", {
    source: "external_docker",
    source_config: {},
    source_revision_config: { image_uri: "registry.example.org/bot:1" },
  });
  const answer = await t.ask({ method: "POST", url: `/v2/deployments/${id}/upload-url` });
  assert.deepEqual(
    [answer.status, answer.body],
    [400, { detail: "Uploads are not available for source 'external_docker'." }],
  );
});

test("a stream over the limit, or one that breaks off, leaves no file", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-upload-"));
  const target = path.join(directory, "deep", "file.tar.gz");
  const options = { bytesMax: 1_000, signal: new AbortController().signal };
  try {
    await assert.rejects(receiveFile(Readable.from([archive]), target, options), {
      code: "uploadTooLarge",
      status: 413,
    });
    const broken = new Readable({ read() {} });
    broken.push(archive.subarray(0, 100));
    broken.on("error", () => {});
    setImmediate(() => broken.destroy(new Error("reset")));
    await assert.rejects(receiveFile(broken, target, options), { code: "uploadBroken", status: 400 });
    assert.deepEqual(await readdir(path.dirname(target)), []);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("rejects an announced size over 200 MiB", async () => {
  const { upload_url } = await uploadUrl(await createDeployment("announced"));
  const url = new URL(upload_url);
  const answer = await t.ask({
    method: "PUT",
    url: url.pathname + url.search,
    key: null,
    payload: archive,
    headers: { "content-length": String(200 * 1024 * 1024 + 1), "content-type": "application/gzip" },
  });
  assert.deepEqual([answer.status, answer.body], [413, { detail: "The upload is larger than 209715200 bytes." }]);
});
