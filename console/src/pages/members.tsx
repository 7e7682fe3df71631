import { useState } from "react";
import type { MemberRole } from "../../../src/contract/administration/member.ts";
import { SelectField, TextField } from "../parts/fields.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

const roles = (["reader", "deployer", "admin"] as const).map((value) => ({ value, text: value }));

/** The members of the workspace and of its organization. */
export function MembersPage() {
  const { client, session, workspaceId } = useSession();
  const queryKey = ["members", workspaceId];
  const scopeText = (id: string | null) => {
    if (id === null) return "Whole organization";
    return id === workspaceId ? "This workspace" : (session.workspaces.find((one) => one.id === id)?.name ?? id);
  };
  const setRole = (member_id: string, role: MemberRole) => client.patchMember({ member_id, body: { role } });
  return (
    <ResourcePage
      title="Members"
      about="People who sign in with the identity provider of this server, and their roles."
      teach={
        <p>
          A member is a person with an email address and a role in this workspace or in the whole organization. Members
          sign in with the identity provider of this server.
        </p>
      }
      queryKey={queryKey}
      read={(signal) => client.all("listMembers", {}, { signal })}
      call={{ id: "listMembers", input: { limit: 100 }, cli: "npx pierhead admin members list" }}
      idOf={({ id }) => id}
      columns={[
        { name: "Email", show: ({ email }) => email },
        { name: "Name", show: ({ name }) => name ?? "–" },
        { name: "Role", show: ({ role }) => role },
        { name: "Where", show: ({ workspace_id }) => scopeText(workspace_id) },
        { name: "Since", show: ({ created_at }) => <Ago at={created_at} /> },
      ]}
      actions={({ id, email, role }) => (
        <>
          {roles
            .filter(({ value }) => value !== role)
            .map(({ value }) => (
              <ActionButton
                key={value}
                text={`Make ${value}`}
                label={`Make ${value}: ${email}`}
                act={() => setRole(id, value)}
                done={`${email} is now ${value}.`}
                undo={() => setRole(id, role)}
                renews={queryKey}
              />
            ))}
          <ActionButton
            text="Remove"
            label={`Remove ${email}`}
            isDanger
            confirm={`${email} will no longer be a member.`}
            act={() => client.deleteMember({ member_id: id })}
            done={`${email} was removed.`}
            renews={queryKey}
          />
        </>
      )}
    >
      <NewMember />
    </ResourcePage>
  );
}

function NewMember() {
  const { client, workspaceId } = useSession();
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [role, setRole] = useState<MemberRole>("reader");
  const body = { email, role, workspace_id: workspaceId, ...(name !== "" && { name }) };
  return (
    <FormDialog
      open="New member"
      title="New member"
      submit="Add"
      isReady={/^[^\s@]+@[^\s@]+$/.test(email)}
      call={{ id: "createMember", input: { body } }}
      send={() => client.createMember({ body })}
      renews={["members", workspaceId]}
    >
      <TextField label="Email address" type="email" value={email} onValue={setEmail} />
      <TextField label="Name" value={name} onValue={setName} />
      <SelectField label="Role" value={role} onValue={setRole} options={roles} />
    </FormDialog>
  );
}
