import type { ContextKey, SharedContexts } from "../builds/shared-contexts.ts";
import type { ObjectStorage, StoredObject } from "../integrations/object-storage.ts";
import { describeFile } from "./uploads.ts";

const folder = "contexts";
/** Limit for sending one context. */
const sendTimeoutMs = 10 * 60_000;
/** Limit for deleting the contexts of one deployment. */
const removeTimeoutMs = 60_000;

/** Keeps build contexts in a bucket for the time of their build. */
export class BucketContexts implements SharedContexts {
  readonly #storage: ObjectStorage;

  constructor(storage: ObjectStorage) {
    this.#storage = storage;
  }

  async keep(key: ContextKey, file: string, signal: AbortSignal): Promise<void> {
    const ending = AbortSignal.any([signal, AbortSignal.timeout(sendTimeoutMs)]);
    // Left by servers that died. A deployment has one build at a time, so no build needs them any more.
    await this.removeAllOf(key.deploymentId);
    await this.#storage.put(nameOf(key), await describeFile(file), ending);
  }

  open(key: ContextKey, signal: AbortSignal): Promise<StoredObject | undefined> {
    return this.#storage.open(nameOf(key), signal);
  }

  remove(key: ContextKey): Promise<void> {
    return this.#storage.remove(nameOf(key), AbortSignal.timeout(removeTimeoutMs));
  }

  removeAllOf(deploymentId: string): Promise<void> {
    return this.#storage.removeAll(`${folder}/${deploymentId}/`, AbortSignal.timeout(removeTimeoutMs));
  }
}

const nameOf = ({ deploymentId, orderId }: ContextKey) => `${folder}/${deploymentId}/${orderId}.tar`;
