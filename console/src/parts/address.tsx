import { copyText } from "./copy-as.tsx";
import { useToasts } from "./toasts.tsx";

/** The address of a deployment, with a button to copy it. */
export function Address({ url }: { url: string }) {
  const { notify, notifyError } = useToasts();
  return (
    <>
      <a href={url} className="clip" rel="noreferrer">
        {url}
      </a>
      <button
        type="button"
        className="plain"
        onClick={() => void copyText(url).then(() => notify("Address copied."), notifyError)}
      >
        Copy address
      </button>
    </>
  );
}
