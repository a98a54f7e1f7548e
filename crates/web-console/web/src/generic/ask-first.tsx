import { type ReactNode, useState } from 'react'
import { queries } from '../api/query.ts'
import { Refusal } from '../api/request.ts'
import { Confirmation } from '../kit/dialogs.tsx'
import { Failure } from './failure.tsx'
import { needsSignIn, SignInAgain } from './recent-sign-in.tsx'

/** Asks before an action, and shows its refusal in the dialog. `run` closes the dialog if it succeeds. */
export function AskFirst({
  title,
  text,
  action,
  name,
  run,
  onClose,
  children,
}: {
  title: string
  text: string
  action: string
  /** Typed before it is done. */
  name?: string | undefined
  run: () => Promise<unknown>
  onClose: () => void
  children?: ReactNode
}) {
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const confirm = () => {
    setIsBusy(true)
    run().catch((refused: unknown) => {
      // The next look shows the current state.
      if (refused instanceof Refusal && refused.status === 412) void queries.invalidateQueries()
      setError(refused)
      setIsBusy(false)
    })
  }
  return (
    <Confirmation
      title={title}
      text={text}
      action={action}
      name={name}
      isOpen
      isBusy={isBusy}
      onConfirm={confirm}
      onClose={onClose}
    >
      {children}
      {error !== undefined && (needsSignIn(error) ? <SignInAgain onSignedIn={confirm} /> : <Failure error={error} />)}
    </Confirmation>
  )
}
