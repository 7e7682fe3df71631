import { Addresses } from "../deployment-settings/addresses.tsx";
import { AlertRules } from "../deployment-settings/alert-rules.tsx";
import { CustomAddress } from "../deployment-settings/custom-address.tsx";
import { DeleteDeployment } from "../deployment-settings/delete-deployment.tsx";
import { General } from "../deployment-settings/general.tsx";
import { Scale } from "../deployment-settings/scale.tsx";
import { Source } from "../deployment-settings/source.tsx";
import { Notice } from "../parts/notices.tsx";
import type { Deployment } from "../parts/words.ts";
import { useSession } from "../session.tsx";

/** The settings of a deployment, its addresses, and its deletion. */
export function DeploymentSettingsPart({ deployment }: { deployment: Deployment }) {
  const { mayChange } = useSession();
  return (
    <>
      <Addresses deployment={deployment} />
      {mayChange && deployment.source === "external_docker" && <CustomAddress deployment={deployment} />}
      {mayChange && <General deployment={deployment} />}
      {mayChange && deployment.source === "github" && <Source deployment={deployment} />}
      {mayChange && <Scale deployment={deployment} />}
      <AlertRules deployment={deployment} />
      {mayChange && <DeleteDeployment deployment={deployment} />}
      {!mayChange && <Notice>Your role is read-only. Ask an admin for the deployer role to change settings.</Notice>}
    </>
  );
}
