import assert from "node:assert/strict";
import { test } from "node:test";
import { Mode } from "../../src/contract/administration/info.ts";
import { SourceKind } from "../../src/contract/deployments/deployment.ts";
import { mayHaveListeners, modes, shownRegions } from "../../src/domain/mode.ts";

test("every mode of the contract has rules, and standalone offers every source", () => {
  assert.deepEqual(Object.keys(modes).toSorted(), (Mode.enum as string[]).toSorted());
  assert.deepEqual([...modes.standalone.sources].toSorted(), (SourceKind.enum as string[]).toSorted());
  assert.deepEqual(new Set([...modes.cloud.sources, ...modes.self_hosted.sources]), new Set(SourceKind.enum));
});

test("listeners: allowed for every plan in standalone, by plan in other modes", () => {
  assert.deepEqual(
    (Object.keys(modes) as Mode[]).map((mode) => [
      mayHaveListeners(mode, "cloud"),
      mayHaveListeners(mode, "self_hosted_enterprise"),
    ]),
    [
      [true, true],
      [false, true],
      [false, true],
    ],
  );
});

test("shows all regions in cloud mode, and only its own in other modes", () => {
  const regions = ["us", "eu"].map((name) => ({ name, url: `https://${name}.example` }));
  assert.deepEqual(shownRegions("cloud", "eu", regions), regions);
  assert.deepEqual(shownRegions("standalone", "eu", regions), [regions[1]]);
  assert.throws(() => shownRegions("cloud", "mars", regions), /region "mars" is not one of us, eu/);
});
