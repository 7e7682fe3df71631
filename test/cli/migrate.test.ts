import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { emptyTemplateDirectory } from "../support/database-template.ts";

test("migrates the database of the given data directory and no other", async () => {
  const home = await mkdtemp(path.join(tmpdir(), "pierhead-migrate-"));
  try {
    const dataDir = path.join(home, "data");
    const env = {
      PATH: process.env["PATH"],
      HOME: home,
      PIERHEAD_DATABASE_TEMPLATE_DIR: await emptyTemplateDirectory(),
    };
    const args = ["src/main.ts", "migrate", "--data-dir", dataDir, "--json"];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env });
    assert.ok(JSON.parse(stdout).applied.includes("0001_initial.sql"));
    assert.ok((await readdir(dataDir)).includes("database"));
    assert.ok(!(await readdir(home)).includes(".pierhead"), "no other installation was created");
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});
