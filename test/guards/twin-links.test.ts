import assert from "node:assert/strict";
import { test } from "node:test";
import { withLinksToIndex } from "../../docs/site/twin-links.ts";

test("leads links of a page's Markdown to the index that the site has instead of a README", () => {
  const pages = ["README.md", "docs/start/laptop.md", "docs/frameworks/README.md"];
  const linked = (text: string) => withLinksToIndex(text, "docs/start/laptop.md", pages);
  assert.equal(
    linked("[a](../frameworks/README.md) [b](../frameworks/README.md#begin)"),
    "[a](../frameworks/index.md) [b](../frameworks/index.md#begin)",
  );
  assert.equal(linked("[home](../../README.md)"), "[home](../../index.md)");
  const others =
    "[x](../../examples/account-agent/README.md) [y](https://example.org/README.md) [z](laptop.md) README.md";
  assert.equal(linked(others), others);
});
