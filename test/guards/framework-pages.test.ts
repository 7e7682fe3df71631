import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { isAsShown, readPage, readPages } from "../projects/pages.ts";

test("every block of the framework pages is a file, a command or its output", () => {
  const pages = readPages();
  assert.ok(pages.length >= 10, `${pages.length} pages`);
  for (const { name, steps, needs } of pages) {
    const commands = steps.flatMap((step) => (step.kind === "command" ? [step] : []));
    assert.ok(needs.length > 0, `${name} has no packages to install`);
    assert.ok(
      commands.some(({ command }) => command.startsWith("pierhead deploy ")),
      `${name} deploys nothing`,
    );
    assert.ok(commands.at(-1)?.output, `${name} ends without an answer`);
  }
});

test("a framework page with a block that the tests cannot run is refused", () => {
  assert.throws(() => readPage("x", "Text\n\n```python\nprint()\n```\n"), /neither a file nor a command/);
});

test("the index and llms.txt name every framework page", () => {
  const pages = readdirSync("docs/frameworks").filter((file) => file !== "README.md");
  const index = readFileSync("docs/frameworks/README.md", "utf8");
  const llms = readFileSync("docs/llms.txt", "utf8");
  assert.deepEqual(
    pages.filter((file) => !index.includes(`(${file})`) || !llms.includes(`(frameworks/${file})`)),
    [],
  );
});

test("the output of a command may differ from its page in times, addresses and identifiers only", () => {
  const shown = "Deployed hello in 8.6 s\n…\nhttp://127.0.0.1:8124/d/hello-7900293d";
  assert.ok(isAsShown(shown, "Deployed hello in 1 min 02 s\nmore\nhttp://127.0.0.1:33333/d/hello-0123abcd\n"));
  assert.ok(!isAsShown(shown, "Deployed other in 11.2 s\nhttp://127.0.0.1:33333/d/hello-0123abcd\n"));
});
