import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { findFault, parseJsonBody } from "../../src/api/http/json-body.ts";
import { parseQuery } from "../../src/api/http/request-parts.ts";
import { readTimestamp } from "../../src/api/validation/timestamp-text.ts";
import { readUuid } from "../../src/api/validation/uuid-text.ts";
import { compileValidator, type Validated } from "../../src/api/validation/validate.ts";
import { CreateDeployment, ListDeploymentsQuery, PatchDeployment } from "../../src/contract/deployments/deployment.ts";
import { operations } from "../../src/contract/operations.ts";

const validators = [CreateDeployment, PatchDeployment].map((schema) => compileValidator(schema, "body"));
const validateQuery = compileValidator(ListDeploymentsQuery, "query");
const fieldNames = Object.keys(PatchDeployment.properties).concat(
  "name",
  "source",
  "value",
  "cpu",
  "labels",
  "__proto__",
);

/** Bodies whose keys are often ours, so that the walk goes deep. */
const { body } = fc.letrec((tie) => ({
  body: fc.oneof({ maxDepth: 6 }, fc.jsonValue(), tie("list"), tie("object")),
  list: fc.array(tie("body"), { maxLength: 4 }),
  object: fc.dictionary(fc.oneof(fc.constantFrom(...fieldNames), fc.string()), tie("body"), { maxKeys: 6 }),
}));

function assertWellFormed({ problems }: Validated, part: string): void {
  assert.ok(problems.length <= 100);
  for (const problem of problems) {
    assert.equal(problem.loc[0], part);
    assert.ok(problem.loc.every((key) => typeof key === "string" || Number.isInteger(key)));
    assert.match(problem.type, /^[a-z_]+$/);
    assert.ok(problem.msg.length > 0);
    assert.ok("input" in problem);
    assert.doesNotThrow(() => JSON.stringify(problem));
  }
}

test("for any body, the validator ends with well-formed problems or a value", () => {
  fc.assert(
    fc.property(body, (value) => {
      for (const validate of validators) assertWellFormed(validate(value), "body");
    }),
    { numRuns: 2_000 },
  );
});

test("for any query, the validator ends with well-formed problems or a value", () => {
  const pair = fc.tuple(
    fc.constantFrom("limit", "offset", "deployment_type", "agent_id", "remote_reconciled"),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(pair), fc.string(), (pairs, tail) => {
      const text = `${new URLSearchParams(pairs)}&${tail}`;
      assertWellFormed(validateQuery(parseQuery(text)), "query");
    }),
    { numRuns: 1_000 },
  );
});

test("accepts an accepted value again, unchanged", () => {
  fc.assert(
    fc.property(body, (sent) => {
      for (const validate of validators) {
        const { value, problems } = validate(sent);
        if (problems.length === 0) assert.deepEqual(validate(value), { value, problems: [] });
      }
    }),
    { numRuns: 1_000 },
  );
});

test("finds a fault for every text that the JSON parser rejects, inside the text or at its end", () => {
  const text = fc.oneof(
    fc.string(),
    fc.json().chain((json) => fc.nat(json.length).map((at) => json.slice(0, at))),
  );
  fc.assert(
    fc.property(text, (broken) => {
      const parsed = parseJsonBody(Buffer.from(broken));
      if ("value" in parsed) return;
      const { at, reason } = findFault(broken);
      assert.ok(at >= 0 && at <= broken.length);
      assert.match(reason, /^(Expecting|Extra|Invalid|Unterminated)/);
    }),
    { numRuns: 2_000 },
  );
});

test("parses every form of a UUID to the same one", () => {
  fc.assert(
    fc.property(fc.uuid(), (uuid) => {
      for (const form of [uuid, uuid.toUpperCase(), `{${uuid}}`, `urn:uuid:${uuid}`, uuid.replaceAll("-", "")]) {
        assert.deepEqual(readUuid(form), { uuid });
      }
    }),
  );
});

test("a parsed timestamp parses to itself, and every text ends with a timestamp or a reason", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
      ),
      (text) => {
        const read = readTimestamp(text);
        if ("timestamp" in read) assert.deepEqual(readTimestamp(read.timestamp), read);
        else assert.ok(read.error.length > 0);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("no query accepts a number that the database does not", () => {
  const queries = Object.values(operations).flatMap(({ id, query }) => (query === null ? [] : [{ id, query }]));
  assert.ok(queries.length > 10);
  for (const { id, query } of queries) {
    for (const [name, field] of Object.entries((query as unknown as typeof ListDeploymentsQuery).properties)) {
      const { type } = field as { type?: string };
      if (type !== "integer") continue;
      const { problems } = compileValidator(query, "query")(parseQuery(`${name}=1e50`));
      assert.ok(
        problems.some(({ loc }) => loc[1] === name),
        `${id}: ${name}`,
      );
    }
  }
});
