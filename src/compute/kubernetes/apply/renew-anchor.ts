import { setTimeout as sleep } from "node:timers/promises";
import type { ApiServer } from "../api-server.ts";
import { teardownFinalizer } from "../render/names.ts";
import type { Living } from "./apply.ts";

const lookMs = 500;

/**
 * An anchor that somebody deletes waits for our finalizer, and nothing brings it back: everything it owns would go with it,
 * the password of a database among it. So what it owns is made nobody's, and another one in its place says the same.
 * Until that is there, this process alone knows what it said.
 * @returns the new one.
 */
export async function renewAnchor(api: ApiServer, anchor: Living, signal: AbortSignal): Promise<Living> {
  const { name, namespace, uid, labels = {}, annotations = {} } = anchor.metadata;
  const read = () => api.get<Living>("ConfigMap", namespace, name, signal);
  await api.remove("ConfigMap", anchor.metadata, { uid, propagationPolicy: "Orphan" }, signal);
  for (;;) {
    const there = await read();
    if (there === null || there.metadata.uid !== uid) break;
    // The garbage collector's mark, for as long as it is at work.
    if (!there.metadata.finalizers?.includes("orphan")) await letGo(api, there, signal);
    await sleep(lookMs, undefined, { signal });
  }
  const metadata = { name, namespace, labels, annotations, finalizers: [teardownFinalizer] };
  await api.create({ apiVersion: "v1", kind: "ConfigMap", metadata, data: anchor["data"] }, signal);
  const renewed = await read();
  if (renewed === null) throw new Error(`the ConfigMap ${name} was deleted and cannot be made anew`);
  return renewed;
}

async function letGo(api: ApiServer, { metadata }: Living, signal: AbortSignal): Promise<void> {
  const finalizers = (metadata.finalizers ?? []).filter((one) => one !== teardownFinalizer);
  const patch = [
    { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
    { op: "replace", path: "/metadata/finalizers", value: finalizers },
  ];
  await api.patch("ConfigMap", metadata, patch, signal, "jsonPatch");
}
