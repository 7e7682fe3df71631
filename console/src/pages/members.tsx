import { type QueryKey, useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Member, MemberRole } from "../../../src/contract/administration/member.ts";
import { SelectField, TextField } from "../parts/fields.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { roleTexts } from "../parts/roles.ts";
import { Ago } from "../parts/time.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";

const roles = [
  { value: "reader", text: "Reader" },
  { value: "deployer", text: "Deployer" },
  { value: "admin", text: "Admin" },
] as const satisfies { value: MemberRole; text: string }[];

/** The members of the workspace and of its organization. */
export function MembersPage() {
  const { client, session, workspaceId } = useSession();
  const queryKey = ["members", workspaceId];
  const scopeText = (id: string | null) => {
    if (id === null) return "Whole organization";
    return id === workspaceId ? "This workspace" : (session.workspaces.find((one) => one.id === id)?.name ?? id);
  };
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
        { name: "Name", show: ({ name }) => name ?? <span className="softer">Not signed in yet</span> },
        { name: "Role", show: (member) => <RoleChoice member={member} queryKey={queryKey} /> },
        { name: "Where", show: ({ workspace_id }) => scopeText(workspace_id) },
        { name: "Since", show: ({ created_at }) => <Ago at={created_at} /> },
      ]}
      actions={({ id, email }) => (
        <>
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

/** The role of a member. A choice takes effect at once and can be undone. */
function RoleChoice({ member: { id, email, role }, queryKey }: { member: Member; queryKey: QueryKey }) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  const renew = () => queries.invalidateQueries({ queryKey });
  const send = (to: MemberRole) => client.patchMember({ member_id: id, body: { role: to } });
  const change = useMutation({
    mutationFn: send,
    onError: notifyError,
    // The choice stays pending until the list is read again, so that the old role does not flash.
    onSuccess: (_, to) => {
      notify(`${email} is now ${to}.`, () => void send(role).then(renew, notifyError));
      return renew();
    },
  });
  return (
    <select
      aria-label={`Role of ${email}`}
      className="small"
      value={change.isPending ? change.variables : role}
      // A disabled choice would lose the focus.
      aria-disabled={change.isPending}
      onChange={(event) => !change.isPending && change.mutate(event.target.value as MemberRole)}
    >
      {roles.map(({ value, text }) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
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
      <TextField
        label="Email address"
        type="email"
        value={email}
        onValue={setEmail}
        hint="The person signs in with the identity provider. No mail is sent."
      />
      <TextField label="Name" value={name} onValue={setName} />
      <SelectField
        label="Role"
        value={role}
        onValue={setRole}
        options={roles.map(({ value }) => ({ value, text: roleTexts[value] }))}
      />
    </FormDialog>
  );
}
