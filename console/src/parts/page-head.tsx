import type { ReactNode } from "react";

/** The heading of a page with a sentence that says what the page is for. */
export function PageTitle({ title, about }: { title: string; about: ReactNode }) {
  return (
    <div className="page-title">
      <h1>{title}</h1>
      <p className="soft">{about}</p>
    </div>
  );
}
