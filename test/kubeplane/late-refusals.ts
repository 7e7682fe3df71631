import { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import { eventually } from "../support/eventually.ts";

/** An API client that refuses a change of an object that is being deleted, a moment before it is gone. */
export class LateRefusals extends ApiServer {
  override async apply(...[manifest, signal, options]: Parameters<ApiServer["apply"]>) {
    try {
      return await super.apply(manifest, signal, options);
    } catch (error) {
      const { kind, metadata } = manifest;
      const read = () => this.get<LiveObject>(kind, metadata.namespace, metadata.name, signal);
      if ((await read())?.metadata.deletionTimestamp !== undefined) await eventually(read, (there) => there === null);
      throw error;
    }
  }
}
