import type { DeploymentSort } from "../../src/contract/deployments/deployment.ts";
import type { SortOrder } from "../../src/contract/page.ts";

/** Search part of the list's address: a view can be shared as a link, and the browser's Back restores it. */
export interface ListSearch {
  q?: string;
  status?: string;
  type?: string;
  sort?: DeploymentSort;
  order?: SortOrder;
  page?: number;
}

/** Search part of a deployment page's address: the revision and the log that it shows. */
export interface DeploymentSearch {
  revision?: string;
  log?: "build" | "deploy";
}
