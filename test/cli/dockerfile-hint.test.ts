import assert from "node:assert/strict";
import { test } from "node:test";
import type { CliFailure } from "../../src/cli/failure.ts";
import { findProject } from "../../src/cli/source/project.ts";
import { scratch, writeFiles } from "../builds/fixtures.ts";

test("offers the Dockerfile of a project in which no server is recognized", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, { "requirements.txt": "requests\n", "tool.py": "", "src/main.rs": "fn main() {}" });
  const hintsOf = () =>
    findProject(place.dir, undefined).then(
      () => assert.fail("a server was recognized"),
      (error: CliFailure) => error.hints,
    );
  assert.doesNotMatch((await hintsOf()).join(), /Dockerfile/);
  await writeFiles(place.dir, { Dockerfile: "FROM scratch\n" });
  assert.match((await hintsOf()).join(), /pierhead deploy DIR --config Dockerfile/);
});
