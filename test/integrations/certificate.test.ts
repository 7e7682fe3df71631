import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import { readCertificateExpiry } from "../../src/integrations/certificate.ts";
import { startTlsDoor } from "../support/tls-proxy.ts";

const signal = new AbortController().signal;

test("reads when the certificate of an address expires, and fails where nothing answers with one", async () => {
  await using door = await startTlsDoor("http://127.0.0.1:1");
  const { validTo } = new X509Certificate(door.certificate);
  assert.deepEqual(await readCertificateExpiry(door.url, signal), new Date(validTo));
  const named = `https://agents.invalid:${new URL(door.url).port}`;
  assert.deepEqual(
    await readCertificateExpiry(named, signal, { resolve: async () => ["127.0.0.1"] }),
    new Date(validTo),
    "at the address that was found for it",
  );
  await assert.rejects(readCertificateExpiry("https://127.0.0.1:1", signal), /ECONNREFUSED/);
  await assert.rejects(readCertificateExpiry(door.url, AbortSignal.abort(new Error("stopping"))), /stopping/);
});
