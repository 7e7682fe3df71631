import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { startWithTwoWorkspaces, type Workspace } from "./two-workspaces.ts";

const mib = 1024 * 1024;

async function makeUploadUrl({ api }: Workspace): Promise<string> {
  const body = {
    name: randomUUID(),
    source: "internal_source" as const,
    source_config: {},
    source_revision_config: {},
  };
  const { id } = await api.createDeployment({ body });
  return (await api.createUploadUrl({ deployment_id: id })).upload_url;
}

test("uploads of one workspace must not take the space of others", async () => {
  await using world = await startWithTwoWorkspaces({ PIERHEAD_UPLOAD_SPACE_MIB: "40" });
  const { attacker, victim } = world;
  const archive = new Blob([new Uint8Array(gzipSync(randomBytes(6 * mib)))]);
  const put = (url: string) => fetch(url, { method: "PUT", body: archive });
  const urls: string[] = [];
  for (let count = 0; count < 8; count += 1) urls.push(await makeUploadUrl(attacker));
  const answers = await Promise.all(urls.map(put));
  assert.equal(answers.filter(({ status }) => status === 200).length, 3, "a share of 20 MiB holds three");
  const refused = answers.filter(({ status }) => status === 413);
  assert.equal(refused.length, 5);
  assert.match(
    await (refused[0] as Response).text(),
    /This workspace may store at most 20 MiB of uploads at the moment/,
  );
  assert.equal((await put(await makeUploadUrl(victim))).status, 200);
});
