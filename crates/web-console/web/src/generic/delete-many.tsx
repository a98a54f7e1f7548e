import { useRef, useState } from 'react'
import { invalidate } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Instance } from '../api/shapes.ts'
import css from '../kit/controls.module.css'
import { Confirmation } from '../kit/dialogs.tsx'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { failureText } from './failure.tsx'
import { deletesOf, keyOf, pathOf, type Resource } from './resource.ts'
import { tagOf } from './seen.ts'

/** Deletes objects one after the other, and reports those that were refused. */
export default function DeleteMany({
  resource,
  selected,
  onClose,
}: {
  resource: Resource
  selected: Instance[]
  onClose: () => void
}) {
  const [doneCount, setDoneCount] = useState<number | undefined>()
  const [failed, setFailed] = useState<string[]>([])
  const isRunning = doneCount !== undefined && doneCount < selected.length
  const stop = useRef(false)
  const run = async () => {
    const refusals: string[] = []
    for (const [n, instance] of selected.entries()) {
      if (stop.current) break
      const path = pathOf(resource, keyOf(resource, instance))
      await tagOf(path, instance)
        .then((ifMatch) => call('DELETE', path, { ifMatch }))
        .catch((error: unknown) => refusals.push(`${resource.label(instance)}: ${failureText(error)}`))
      setDoneCount(n + 1)
    }
    await invalidate(resource.path)
    setFailed(refusals)
    if (refusals.length === 0) {
      say(t('deleted-many', { count: selected.length }))
      onClose()
    }
  }
  return (
    <Confirmation
      title={t('delete-many', { count: selected.length })}
      text={deletesOf(resource, {})}
      action={t('delete')}
      isOpen
      isBusy={doneCount !== undefined}
      onConfirm={() => void run()}
      onClose={() => {
        stop.current = true
        onClose()
      }}
    >
      {isRunning && <progress value={doneCount} max={selected.length} aria-label={t('progress')} />}
      {failed.length > 0 && (
        <div className={css.notice} data-tone="danger" role="alert">
          <ul>
            {failed.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </div>
      )}
    </Confirmation>
  )
}
