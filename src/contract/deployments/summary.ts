import { type Static, Type } from "typebox";
import { DeploymentTags } from "../administration/tag.ts";
import { Revision } from "../revisions/revision.ts";
import { nullable, uuid } from "../schema.ts";

/** Deployments of one response. */
export const summaryDeploymentsMax = 100;

export const SummariesQuery = Type.Object({
  deployment_ids: Type.Array(uuid(), {
    minItems: 1,
    maxItems: summaryDeploymentsMax,
    description: "Repeated, or separated by commas. Unknown ones are left out.",
  }),
});
export type SummariesQuery = Static<typeof SummariesQuery>;

/** What a list shows of each deployment beside the deployment itself. */
export const DeploymentSummaries = Type.Object(
  {
    deployments: Type.Array(
      Type.Object({
        deployment_id: uuid(),
        latest_revision: nullable(Revision, "Newest revision in any status. null before the first one."),
        tags: DeploymentTags.properties.tags,
      }),
    ),
  },
  { $id: "DeploymentSummaries" },
);
export type DeploymentSummaries = Static<typeof DeploymentSummaries>;
