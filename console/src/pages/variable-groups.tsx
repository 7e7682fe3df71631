import { Link } from "@tanstack/react-router";
import type { VariableGroup } from "../../../src/contract/variables/variable-group.ts";
import { DeployNow, GroupForm } from "../parts/group-form.tsx";
import { ActionButton, ResourcePage } from "../parts/resource-page.tsx";
import { useSession } from "../session.tsx";

/** The variables that deployments of the workspace share. */
export function VariableGroupsPage() {
  const { client, workspaceId, mayChange } = useSession();
  return (
    <ResourcePage
      title="Variable groups"
      about="Variables that several deployments share, such as the keys of a model provider."
      teach={
        <p>
          Put variables that several deployments need into a group, and add the group on their Variables pages. A change
          then reaches all of them with one click. Secrets are stored encrypted and never shown again.
        </p>
      }
      queryKey={["variable-groups", workspaceId]}
      read={(signal) => client.all("listVariableGroups", {}, { signal })}
      call={{ id: "listVariableGroups", input: { limit: 100 }, cli: "npx pierhead groups list" }}
      idOf={({ id }) => id}
      columns={[
        { name: "Group", show: ({ name }) => <b>{name}</b>, isShort: true },
        { name: "Variables", show: Names },
        { name: "Used by", show: Users },
      ]}
      {...(mayChange && { actions: (group: VariableGroup) => <Actions group={group} /> })}
    >
      {mayChange && <GroupForm />}
    </ResourcePage>
  );
}

function Names({ variables }: VariableGroup) {
  if (variables.length === 0) return <span className="softer">None yet</span>;
  return (
    <ul className="group-names">
      {variables.map(({ name, value }) => (
        <li key={name}>
          <code>{value === null ? name : `${name}=${value}`}</code>
        </li>
      ))}
    </ul>
  );
}

function Users({ deployments }: VariableGroup) {
  const { workspaceId: tenantId } = useSession();
  if (deployments.length === 0) return <span className="softer">No deployment</span>;
  return (
    <ul className="group-names">
      {deployments.map(({ id, name, is_current }) => (
        <li key={id}>
          <Link to="/o/$tenantId/host/deployments/$id/$part" params={{ tenantId, id, part: "environment" }}>
            {name}
          </Link>
          {!is_current && <span className="mark-text"> not deployed</span>}
        </li>
      ))}
    </ul>
  );
}

function Actions({ group }: { group: VariableGroup }) {
  const { client, workspaceId } = useSession();
  const { id, name, deployments } = group;
  return (
    <>
      <DeployNow group={group} />
      <GroupForm group={group} />
      {deployments.length === 0 && (
        <ActionButton
          text="Delete"
          label={`Delete ${name}`}
          isDanger
          confirm={`The variables of ${name} are deleted. No deployment uses them.`}
          act={() => client.deleteVariableGroup({ variable_group_id: id })}
          done={`${name} was deleted.`}
          renews={["variable-groups", workspaceId]}
        />
      )}
    </>
  );
}
