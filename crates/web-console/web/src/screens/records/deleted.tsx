// The deleted records of a class: who deleted them and when; restoring and permanent deletion.

import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { invalidate } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Instance } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { Failure, Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { Lines } from '../../generic/lines.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { say } from '../../kit/toasts.tsx'
import { NotFound } from '../../shared/not-found.tsx'
import { RECORDS, useClass } from '../../shared/records/class.ts'
import { t } from '../../texts.ts'

export function Deleted() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const { openClass, isMissing, reading } = useClass(alias)
  const [removing, setRemoving] = useState<Instance | undefined>()
  const [refused, setRefused] = useState<unknown>()
  if (isMissing) return <NotFound />
  if (!openClass) return <Reading of={reading} title={t('records.deleted')} />
  const list = openClass.resource.path
  const nameOf = ({ id, label }: Instance) => `${label ?? `#${id}`}`
  const restore = async (one: Instance) => {
    setRefused(undefined)
    try {
      await call('POST', `${RECORDS}${one.id}/restore/`)
      say(t('records.restored', { name: nameOf(one) }))
    } catch (failed) {
      setRefused(failed)
    }
    void invalidate(list, RECORDS)
  }
  const remove = async (one: Instance) => {
    await call('DELETE', `${list}deleted/${one.id}/`).finally(() => invalidate(`${list}deleted/`))
    setRemoving(undefined)
  }
  return (
    <>
      <nav className={generic.trail} aria-label={t('trail')}>
        <Link to={openClass.resource.route}>{openClass.name}</Link>
      </nav>
      <Lines
        path={`${list}deleted/`}
        title="records.deleted"
        columns={['label', 'deleted_at', 'deleted_by']}
        actions={(record) => (
          <span className={css.actions}>
            <Button
              aria-label={t('records.restore-one', { name: nameOf(record) })}
              onPress={() => void restore(record)}
            >
              {t('records.restore')}
            </Button>
            <Button
              look="danger"
              aria-label={t('records.remove-one', { name: nameOf(record) })}
              onPress={() => setRemoving(record)}
            >
              {t('records.remove')}
            </Button>
          </span>
        )}
      >
        <p className={`${css.hint} ${generic.reading}`}>{t('records.deleted.hint')}</p>
        {refused !== undefined && <Failure error={refused} />}
      </Lines>
      {removing && (
        <AskFirst
          title={t('records.remove-question', { name: nameOf(removing) })}
          text={t('delete-text')}
          action={t('records.remove')}
          run={() => remove(removing)}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </>
  )
}
