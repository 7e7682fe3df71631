import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readsAsInternal } from "../../src/gateway/internal-path.ts";
import { exchangeRaw, route, startGateway, startTarget } from "./harness.ts";

const disguises = [
  "/internal",
  "/internal/",
  "/internal/truncate",
  "/internal?x=1",
  "/INTERNAL/truncate",
  "/InTeRnAl/truncate",
  "//internal/truncate",
  "///internal//truncate",
  "/./internal/truncate",
  "/.//./internal/truncate",
  "/../internal/truncate",
  "/threads/../internal/truncate",
  "/threads/x/../../internal/truncate",
  "/threads/%2e%2e/internal/truncate",
  "/threads/%2E%2E%2Finternal/truncate",
  "/threads/..%2finternal/truncate",
  "/threads/.%2e/internal/truncate",
  "/threads%2f..%2finternal%2ftruncate",
  "/threads%252f..%252finternal%252ftruncate",
  "/threads/%252e%252e/internal/truncate",
  "/threads/%25252e%25252e/internal/truncate",
  "/a%252f/../internal/truncate",
  "/a%252fb/../internal/truncate",
  "/a%2fb/../internal/truncate",
  "/%69nternal/truncate",
  "/%49NTERNAL/truncate",
  "/%2569nternal/truncate",
  "/%252569nternal/truncate",
  "/%69%6e%74%65%72%6e%61%6c/truncate",
  "/%u0069nternal/truncate",
  "/internal%2ftruncate",
  "/internal%2Ftruncate",
  "/internal%252ftruncate",
  "/internal%5ctruncate",
  "/internal\\truncate",
  "/\\internal\\truncate",
  "/x\\..\\internal\\truncate",
  "/x%5c..%5cinternal/truncate",
  "/%5cinternal/truncate",
  "/internal;v=1/truncate",
  "/;v=1/internal/truncate",
  "/x/..;/internal/truncate",
  "/x/..;v=1/internal/truncate",
  "/internal%3bx/truncate",
  "/internal%3fx/truncate",
  "/internal%23x",
  "/internal%00/truncate",
  "/internal%00.html",
  "/internal./truncate",
  "/internal%20/truncate",
  "/%20internal/truncate",
  "/%09internal/truncate",
  "/int%0aernal/truncate",
  "/int%e2%80%8bernal/truncate",
  "/%c0%afinternal/truncate",
  "/x/%c0%ae%c0%ae/internal/truncate",
  "/x%c0%af..%c0%afinternal/truncate",
  "/%c1%a9nternal/truncate",
  "/x%e0%80%af..%e0%80%afinternal/truncate",
  "/%ef%bd%89nternal/truncate",
  "/%c4%b1nternal/truncate",
  "/%c4%b0nternal/truncate",
  "/internal/../internal/truncate",
  "/internal/../ok",
  "//host/internal/truncate",
  "/\\host/internal/truncate",
  "/http://host/internal/truncate",
  "/x/internal/..",
  "/%25252525252525252525252525252569nternal",
];

const harmless = [
  "/",
  "/ok",
  "/threads/6f1c/runs/stream?redirect=/internal/x",
  "/store/internal/items",
  "/internals",
  "/internal-notes/1",
  "/my.internal",
  "/threads/%E2%9C%93",
  "/files/100%25/report",
  "/files/100%/report",
  "/a//b/../c",
];

test(`refuses ${disguises.length} encodings of /internal as unknown addresses`, async () => {
  const seen: string[] = [];
  await using agent = await startTarget((request, response) => {
    seen.push(request.url ?? "");
    response.end("reached");
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  assert.equal((await ask(site.port, "/ok", "demo.localhost")).body, "reached");
  seen.length = 0;
  const unknown = await ask(site.port, "/d/nobody/ok", "127.0.0.1");

  for (const path of disguises) {
    for (const [target, host] of [
      [`/d/demo${path}`, "127.0.0.1"],
      [path, "demo.localhost"],
    ] as const) {
      const answer = await ask(site.port, target, host);
      assert.deepEqual(answer, unknown, `${target} as ${host}`);
    }
  }
  assert.deepEqual(seen, []);
});

test("passes paths that only resemble /internal unchanged", async () => {
  const seen: string[] = [];
  await using agent = await startTarget((request, response) => {
    seen.push(request.url ?? "");
    response.end();
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));

  for (const path of harmless) assert.equal((await ask(site.port, `/d/demo${path}`, "127.0.0.1")).status, "200", path);

  assert.deepEqual(seen, harmless);
});

test("recognizes /internal at any encoding depth and after any detour", () => {
  const hex = (code: number, upper: boolean) => {
    const digits = code.toString(16).padStart(2, "0");
    return `%${upper ? digits.toUpperCase() : digits}`;
  };
  const encode = (text: string, picks: number[]) =>
    [...text].map((char, at) => ((picks[at % picks.length] ?? 0) > 1 ? hex(char.charCodeAt(0), at % 2 === 0) : char));
  const detour = fc.constantFrom("", "/.", "/x/..", "/", "/;a", "/x/./..", "/x\\..");
  fc.assert(
    fc.property(
      fc.array(detour, { maxLength: 3 }),
      fc.array(fc.array(fc.nat(3), { minLength: 1 }), { maxLength: 3 }),
      (detours, rounds) => {
        let path = `${detours.join("")}/internal/truncate`.slice(1);
        for (const picks of rounds) path = encode(path, picks).join("");
        assert.equal(readsAsInternal(`/${path}`), true, path);
      },
    ),
    { numRuns: 2_000 },
  );
});

async function ask(port: number, target: string, host: string) {
  const id = "x-request-id: probe";
  const answer = await exchangeRaw(
    port,
    `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${id}\r\nConnection: close\r\n\r\n`,
  );
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  const headers = head
    .split("\r\n")
    .slice(1)
    .filter((line) => !/^date:/i.test(line));
  return { status: head.split(" ")[1] ?? "none", headers, body };
}

test("reads a path of the maximum length in linear time", () => {
  const began = performance.now();
  for (let times = 0; times < 10; times += 1) readsAsInternal(`/%${"25".repeat(6)}41${".".repeat(16_000)}x`);
  assert.ok(performance.now() - began < 500, `${performance.now() - began} ms`);
});
