import assert from "node:assert/strict";
import { test } from "node:test";
import { coversScopes, oauthQuirksOf } from "../../src/domain/oauth-quirks.ts";

const names = ["constructor", "toString", "valueOf", "__proto__"];

test("handles scopes and hosts that equal built-in object properties", () => {
  for (const name of names) {
    const quirks = oauthQuirksOf({ provider_type: null, token_url: `https://${name}/token` });
    assert.deepEqual(quirks, oauthQuirksOf({ provider_type: null, token_url: "https://id.invalid/token" }), name);
    assert.equal(coversScopes([name], [name], quirks), true);
    assert.equal(coversScopes([name], ["repo"], quirks), false);
  }
});

test("a scope covers the scopes that its service includes in it", () => {
  const github = oauthQuirksOf({ provider_type: null, token_url: "https://github.com/login/oauth/access_token" });
  assert.equal(coversScopes(["admin:org"], ["read:org"], github), true);
  assert.equal(coversScopes(["read:org"], ["admin:org"], github), false);
});
