import assert from "node:assert/strict";
import { test } from "node:test";
import { explainExit, type ObservedExit } from "../../src/compute/exit-cause.ts";
import { findMissingVariables } from "../../src/compute/start-cause.ts";

const namesIn = (text: string, unset: string[] = []) => findMissingVariables(text.split("\n"), unset)?.names;

test("names the variables that a JavaScript validator reports", () => {
  const ofZod =
    '❌ Invalid env:\n{\n  "DATABASE_URL": [\n    "Invalid input: expected string, received undefined"\n  ]\n}';
  assert.deepEqual(namesIn(ofZod), ["DATABASE_URL"]);
  const ofEnvSchema = [
    "message: \"must have required property 'POSTGRES_DB'\"",
    "message: \"must have required property 'POSTGRES_USER'\"",
  ];
  assert.deepEqual(namesIn(ofEnvSchema.join("\n")), ["POSTGRES_DB", "POSTGRES_USER"]);
  assert.equal(namesIn("must have required property 'name'"), undefined);
  assert.equal(namesIn("Invalid environment"), undefined);
});

test("names a variable that a program asks for in a sentence, if the project names the variable", () => {
  const asked = "Please provide a token with the --token flag or set the SUPABASE_TOKEN environment variable";
  assert.deepEqual(namesIn(asked, ["SUPABASE_TOKEN"]), ["SUPABASE_TOKEN"]);
  assert.equal(namesIn(asked, ["OTHER_TOKEN"]), undefined);
});

test("names the missing variable of a server whose file watcher keeps it from exiting", () => {
  const ending: ObservedExit = {
    wasReady: false,
    exitCode: null,
    signal: "SIGKILL",
    outOfMemoryKills: 0,
    memoryLimitMib: 512,
    verdict: { reason: "NotHealthy", message: "The agent server did not answer 200 within 150 s and was killed." },
    lastLines: ["Error: API_TOKEN must be set", "Failed running 'src/index.ts'. Waiting for file changes"],
  };
  const { reason, message, variables } = explainExit(ending, () => undefined);
  assert.deepEqual([reason, variables], ["NotHealthy", ["API_TOKEN"]]);
  assert.match(message, /did not answer .* was killed\. API_TOKEN is not set\. Set it with: pierhead env set/);
  assert.equal(explainExit({ ...ending, wasReady: true }, () => undefined).variables, undefined);
});
