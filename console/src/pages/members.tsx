import { type QueryKey, useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Member, MemberRole } from "../../../src/contract/administration/member.ts";
import { Avatar } from "../parts/avatar.tsx";
import { CommandLine } from "../parts/command-line.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { roleTexts } from "../parts/roles.ts";
import { Ago } from "../parts/time.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { basePath, queries } from "../server.ts";
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
  const info = useQuery({ queryKey: ["info"], queryFn: () => client.getInfo(), staleTime: Number.POSITIVE_INFINITY });
  const provider = info.data?.sign_in;
  const providerName = provider?.name ?? "the identity provider of this server";
  return (
    <>
      <ResourcePage
        title="Members"
        about={`People who sign in with ${providerName}, and what they may do here.`}
        teach={
          <p>
            A member is a person with an email address and a role in this workspace or in the whole organization. Add
            the people of your team: each signs in with {providerName} and works under their own name, also in the audit
            log.
          </p>
        }
        queryKey={queryKey}
        read={(signal) => client.all("listMembers", {}, { signal })}
        call={{ id: "listMembers", input: { limit: 100 }, cli: "npx pierhead admin members list" }}
        idOf={({ id }) => id}
        columns={[
          { name: "Member", show: Person },
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
      {provider !== undefined && <WhoGetsIn provider={provider?.name ?? null} />}
    </>
  );
}

function Person({ name, email }: Member) {
  return (
    <div className="person">
      <Avatar name={name ?? email} />
      {name === null ? (
        <span>{email}</span>
      ) : (
        <div>
          <b>{name}</b>
          <div className="softer">{email}</div>
        </div>
      )}
    </div>
  );
}

/** Explains how members sign in, or what the operator must set up first. @param provider null: there is none. */
function WhoGetsIn({ provider }: { provider: string | null }) {
  if (provider !== null)
    return (
      <section className="card" aria-label="Who gets in">
        <h2>Who gets in</h2>
        <p className="soft">
          {provider} says who a person is. This list says what they may do. A person who is not on it sees nothing.
        </p>
      </section>
    );
  return (
    <section className="card" aria-label="Who gets in">
      <h2>Members cannot sign in yet</h2>
      <p className="soft">
        This server has no identity provider. Until it has one, people sign in with an{" "}
        <Link to="/host/$page" params={{ page: "keys" }}>
          API key
        </Link>{" "}
        each. Members that you add now can sign in as soon as a provider is set up:
      </p>
      <ol className="soft numbered">
        <li>
          Register a web application at your provider (Keycloak, Google, Okta, Entra ID and others) with this redirect
          address:
          <CommandLine text={`${location.origin}${basePath}v2/session/oidc/callback`} />
        </li>
        <li>
          Start the server with these settings:
          <CommandLine
            text={[
              `PIERHEAD_PUBLIC_URL=${location.origin}`,
              "PIERHEAD_OIDC_ISSUER=https://id.example.com",
              "PIERHEAD_OIDC_CLIENT_ID=…",
              "PIERHEAD_OIDC_CLIENT_SECRET=…",
            ].join("\n")}
          />
        </li>
      </ol>
    </section>
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
