import assert from "node:assert/strict";
import { test } from "node:test";
import { runHistory } from "./history.ts";

const seeds = 20;

test(`${seeds} seeded histories with dying servers, an unreliable engine and a bad network settle as desired`, async () => {
  const events = new Set<string>();
  for (let seed = 1; seed <= seeds; seed++) {
    for (const event of Object.keys(await runHistory(seed))) events.add(event);
  }
  for (const end of ["DEPLOYED", "BUILD_FAILED", "CREATE_FAILED", "DEPLOY_FAILED", "INTERRUPTED", "SKIPPED"]) {
    assert.ok(events.has(`revision ${end}`), `no revision ended ${end}`);
  }
});
