import assert from "node:assert/strict";
import { test } from "node:test";
import { runHistory } from "./history.ts";

const seeds = 20;

test(`${seeds} seeded histories of dying servers, a lying engine and a bad network settle as desired`, async () => {
  const happened = new Set<string>();
  for (let seed = 1; seed <= seeds; seed++) {
    for (const what of Object.keys(await runHistory(seed))) happened.add(what);
  }
  for (const end of ["DEPLOYED", "BUILD_FAILED", "CREATE_FAILED", "DEPLOY_FAILED", "INTERRUPTED", "SKIPPED"]) {
    assert.ok(happened.has(`revision ${end}`), `no revision ended ${end}`);
  }
});
