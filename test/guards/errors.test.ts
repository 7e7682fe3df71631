import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { type ApiError, errors } from "../../src/contract/error.ts";
import { errorsOf, operations } from "../../src/contract/operations.ts";

const page = readFileSync("docs/reference/errors.md", "utf8");

test("docs/reference/errors.md has a section for every error of the API and no other section", () => {
  const documented = [...page.matchAll(/^## (\w+)$/gm)].map((match) => match[1]);
  assert.deepEqual(documented.toSorted(), Object.keys(errors).toSorted());
});

test("each section starts with the status of its error", () => {
  for (const [, code, status] of page.matchAll(/^## (\w+)\n\n(\d{3})\./gm)) {
    assert.equal(refuse(code as keyof typeof errors).status, Number(status), code);
  }
  assert.equal([...page.matchAll(/^## \w+\n\n\d{3}\./gm)].length, Object.keys(errors).length);
});

test("each error carries its own name as code", () => {
  for (const code of Object.keys(errors)) assert.equal(refuse(code as keyof typeof errors).code, code);
});

test("every error is thrown somewhere or declared by an operation", () => {
  const promised = new Set(Object.values(operations).flatMap(errorsOf));
  const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && name !== "contract/error.ts")
    .map((name) => readFileSync(`src/${name}`, "utf8"))
    .join("\n");
  const unused = Object.keys(errors).filter(
    (code) => !promised.has(code as keyof typeof errors) && !sources.includes(`errors.${code}(`),
  );
  assert.deepEqual(unused, []);
});

/** Makes an error from sample arguments: strings, or lists where strings do not fit. */
function refuse(code: keyof typeof errors): ApiError {
  const make = errors[code] as (...args: unknown[]) => ApiError;
  try {
    return make("x", "x", "x");
  } catch {
    return code === "invalidRequest" ? make([]) : make(["x"], ["x"], ["x"]);
  }
}
