import { useQuery } from "@tanstack/react-query";
import type { AlertRule, DeploymentAlertKind } from "../../../src/contract/alerts/alert.ts";
import { RuleActions, RuleTable, ruleNames } from "../parts/alert-rules.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { ActionButton } from "../parts/resource-page.tsx";
import type { Deployment } from "../parts/words.ts";
import { useSession } from "../session.tsx";

/** The alert rules as they apply to this deployment. */
export function AlertRules({ deployment: { id, name } }: { deployment: Deployment }) {
  const { client, mayChange } = useSession();
  const renews = ["alert-rules", id];
  const rules = useQuery({
    queryKey: renews,
    queryFn: ({ signal }) => client.listDeploymentAlertRules({ deployment_id: id }, { signal }),
  });
  const change = ({ kind }: AlertRule, values: { enabled?: boolean | null; threshold?: number | null }) =>
    client.changeDeploymentAlertRule({ deployment_id: id, body: { kind: kindOf(kind), ...values } });
  const actions = (rule: AlertRule) => (
    <>
      {rule.set_by === "deployment" && (
        <ActionButton
          text="As the workspace"
          label={`${ruleNames[rule.kind]}: as the workspace has it`}
          act={() => change(rule, { enabled: null, threshold: null })}
          done={`${ruleNames[rule.kind]} follows the workspace.`}
          renews={renews}
        />
      )}
      <RuleActions
        rule={rule}
        callOf={(values) => ({
          id: "changeDeploymentAlertRule",
          input: { deployment_id: id, body: { kind: kindOf(rule.kind), ...values } },
          cli: `npx pierhead alerts set ${rule.kind} --deployment ${name} --threshold ${values.threshold}`,
        })}
        change={(values) => change(rule, values)}
        renews={renews}
      />
    </>
  );
  return (
    <section className="card" aria-label="Alert rules">
      <h2>Alert rules</h2>
      {rules.isPending && <Loading what="the rules" />}
      {rules.isError && <Failure error={rules.error} retry={() => void rules.refetch()} />}
      {rules.data !== undefined && <RuleTable rules={rules.data.rules} actions={mayChange ? actions : null} />}
      <p className="softer">What you change here applies to this deployment alone.</p>
    </section>
  );
}

/** The server lists no other kinds for a deployment. */
const kindOf = (kind: AlertRule["kind"]) => kind as DeploymentAlertKind;
