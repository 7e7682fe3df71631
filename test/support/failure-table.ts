import assert from "node:assert/strict";
import type { Client } from "../../src/client/client.ts";
import type { HealthWord, NextAction } from "../../src/contract/deployments/health.ts";
import type { FailureCode } from "../../src/contract/revisions/failure.ts";
import { eventually } from "./eventually.ts";

/** A failure as users see it. The same code has the same next action on each compute. */
export interface ExpectedFailure {
  word: HealthWord;
  /** null: what happened is no failure of a revision or a replica. */
  code: FailureCode | null;
  action: NextAction["kind"];
  message: RegExp;
}

/** Waits until a deployment fails as expected, takes the way out, and waits until it is live. The failure is one event. */
export async function checkFailure(
  client: Client,
  deploymentId: string,
  expected: ExpectedFailure,
  leave: () => Promise<unknown>,
): Promise<void> {
  const ids = { deployment_id: deploymentId };
  const reaches = (word: HealthWord) =>
    eventually(
      () => client.getDeployment(ids),
      ({ health }) => health.status === word,
      { what: `${expected.code ?? expected.action}: ${word}`, timeoutMs: 120_000 },
    );
  const { health } = await reaches(expected.word);
  assert.equal(health.failure?.code ?? null, expected.code, health.message ?? "");
  assert.match(health.message ?? "", expected.message);
  assert.equal(health.next_action?.kind, expected.action);
  if (expected.word === "failed") {
    const { resources } = await client.listRevisions({ ...ids, limit: 1 });
    assert.equal(resources[0]?.failure?.code, expected.code, "the revision has the same code");
  }
  await leave();
  await reaches("live");
  const { events } = await client.listDeploymentEvents({ ...ids, types: ["deployment.health"], limit: 1_000 });
  const words = events.map(({ data }) => data["to"]);
  assert.equal(words.filter((word) => word === expected.word).length, 1, words.join(" "));
}
