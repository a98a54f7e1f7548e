// The deleted records of a class: who deleted them and when; restoring and permanent deletion.

import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { wrote } from '../../api/query.ts'
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
  const { found, isMissing, reading } = useClass(alias)
  const [asked, setAsked] = useState<Instance | undefined>()
  const [refused, setRefused] = useState<unknown>()
  if (isMissing) return <NotFound />
  if (!found) return <Reading of={reading} title={t('records.deleted')} />
  const list = found.resource.path
  const nameOf = ({ id, label }: Instance) => `${label ?? `#${id}`}`
  const restore = async (one: Instance) => {
    setRefused(undefined)
    try {
      await call('POST', `${RECORDS}${one.id}/restore/`)
      say(t('records.restored', { name: nameOf(one) }))
    } catch (failed) {
      setRefused(failed)
    }
    void wrote(list, RECORDS)
  }
  const remove = async (one: Instance) => {
    await call('DELETE', `${list}deleted/${one.id}/`).finally(() => wrote(`${list}deleted/`))
    setAsked(undefined)
  }
  return (
    <>
      <nav className={generic.trail} aria-label={t('trail')}>
        <Link to={found.resource.route}>{found.name}</Link>
      </nav>
      <Lines
        path={`${list}deleted/`}
        title="records.deleted"
        columns={['label', 'deleted_at', 'deleted_by']}
        actions={(one) => (
          <span className={css.actions}>
            <Button aria-label={t('records.restore-one', { name: nameOf(one) })} onPress={() => void restore(one)}>
              {t('records.restore')}
            </Button>
            <Button
              look="danger"
              aria-label={t('records.remove-one', { name: nameOf(one) })}
              onPress={() => setAsked(one)}
            >
              {t('records.remove')}
            </Button>
          </span>
        )}
      >
        <p className={`${css.hint} ${generic.reading}`}>{t('records.deleted.hint')}</p>
        {refused !== undefined && <Failure error={refused} />}
      </Lines>
      {asked && (
        <AskFirst
          title={t('records.remove-question', { name: nameOf(asked) })}
          text={t('delete-text')}
          action={t('records.remove')}
          run={() => remove(asked)}
          onClose={() => setAsked(undefined)}
        />
      )}
    </>
  )
}
