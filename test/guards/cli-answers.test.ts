import assert from "node:assert/strict";
import { test } from "node:test";
import { commandTable } from "../../src/cli/command-table.ts";
import { answerSchema, describedCommands } from "../../src/cli/tools/json-schema.ts";

/** `test/cli/answers.test.ts` runs the commands and compares what they print. */
test("the JSON answer of every command is written in the notation of answerTypes", () => {
  for (const [words, notation] of describedCommands(commandTable))
    assert.doesNotThrow(() => answerSchema(notation), words);
});
