import { useRef, useState } from 'react'
import { wrote } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Instance } from '../api/shapes.ts'
import css from '../kit/controls.module.css'
import { Confirmation } from '../kit/dialogs.tsx'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { told } from './failure.tsx'
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
  const [done, setDone] = useState<number | undefined>()
  const [failed, setFailed] = useState<string[]>([])
  const isRunning = done !== undefined && done < selected.length
  const stop = useRef(false)
  const run = async () => {
    const left: string[] = []
    for (const [n, instance] of selected.entries()) {
      if (stop.current) break
      const path = pathOf(resource, keyOf(resource, instance))
      await tagOf(path, instance)
        .then((ifMatch) => call('DELETE', path, { ifMatch }))
        .catch((error: unknown) => left.push(`${resource.label(instance)}: ${told(error)}`))
      setDone(n + 1)
    }
    await wrote(resource.path)
    setFailed(left)
    if (left.length === 0) {
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
      isBusy={done !== undefined}
      onConfirm={() => void run()}
      onClose={() => {
        stop.current = true
        onClose()
      }}
    >
      {isRunning && <progress value={done} max={selected.length} aria-label={t('progress')} />}
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
