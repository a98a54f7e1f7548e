// The second factors of the signed-in person: a list, with adding and removing.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate } from '../../api/query.ts'
import { call, Refusal } from '../../api/request.ts'
import type { Instance } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { Reading } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { part } from '../../kit/part.tsx'
import { say } from '../../kit/toasts.tsx'
import { Moment } from '../../kit/values.tsx'
import { t } from '../../texts.ts'
import { type Confirmed, FACTORS, mayHaveFactors, ownFactors } from './own-factors.ts'
import { canUsePasskeys } from './passkey.ts'
import { RecoveryCodes, ShownCodes } from './recovery-codes.tsx'

const AddGenerator = part(() => import('./add-generator.tsx').then((module) => module.AddGenerator))
const AddPasskey = part(() => import('./add-passkey.tsx').then((module) => module.AddPasskey))

const LAST_REQUIRED = 'A second factor is required.'

const nameOf = ({ name }: Instance) => `${name}`

/** Nothing for an account of a program, which cannot have factors. */
export function SecondFactors() {
  const factorsQuery = useQuery({ ...ownFactors, enabled: mayHaveFactors() })
  const [adding, setAdding] = useState<'totp' | 'passkey' | undefined>()
  const [removing, setRemoving] = useState<Instance | undefined>()
  const [codes, setCodes] = useState<string[] | undefined>()
  if (!mayHaveFactors()) return null
  const factors = factorsQuery.data?.results ?? []
  const names = factors.map(nameOf)
  const added = ({ name, recovery_codes: first }: Confirmed) => {
    setAdding(undefined)
    setCodes(first)
    say(t('factors.added', { name }))
    void invalidate(FACTORS)
  }
  const adds = { names, onAdded: added, onClose: () => setAdding(undefined) }
  return (
    <section className={look.section} aria-labelledby="second-factors">
      <h2 id="second-factors">{t('factors')}</h2>
      <p className={css.hint}>{t('factors.hint')}</p>
      <Reading of={[factorsQuery]} />
      {factorsQuery.data && factors.length === 0 && <p>{t('factors.none')}</p>}
      {factors.length > 0 && (
        <ul className={look.plain}>
          {factors.map((factor) => (
            <Factor key={`${factor.id}`} factor={factor} onRemove={() => setRemoving(factor)} />
          ))}
        </ul>
      )}
      <div className={css.actions}>
        <Button icon="plus" onPress={() => setAdding('totp')}>
          {t('factors.add-totp')}
        </Button>
        {canUsePasskeys() && (
          <Button icon="plus" onPress={() => setAdding('passkey')}>
            {t('factors.add-passkey')}
          </Button>
        )}
      </div>
      {!canUsePasskeys() && <p className={css.hint}>{t('factors.no-passkeys')}</p>}
      {factors.length > 0 && <RecoveryCodes />}
      {adding === 'totp' && <AddGenerator {...adds} />}
      {adding === 'passkey' && <AddPasskey {...adds} />}
      {removing && (
        <RemoveFactor factor={removing} isLast={factors.length === 1} onClose={() => setRemoving(undefined)} />
      )}
      {codes && <ShownCodes codes={codes} onClose={() => setCodes(undefined)} />}
    </section>
  )
}

function Factor({ factor, onRemove }: { factor: Instance; onRemove: () => void }) {
  const { type, created_at: added, last_used_at: used } = factor
  return (
    <li className={look.member}>
      <span className={look.session}>
        <span>{nameOf(factor)}</span>
        <span className={look.when}>
          {`${t(type === 'passkey' ? 'factors.passkey' : 'factors.totp')} · ${t('factors.since')} `}
          <Moment value={`${added}`} />
          {' · '}
          {typeof used === 'string' ? (
            <>
              {`${t('factors.used')} `}
              <Moment value={used} />
            </>
          ) : (
            t('factors.unused')
          )}
        </span>
      </span>
      <Button look="quiet" aria-label={t('remove-one', { name: nameOf(factor) })} onPress={onRemove}>
        {t('remove')}
      </Button>
    </li>
  )
}

function RemoveFactor({ factor, isLast, onClose }: { factor: Instance; isLast: boolean; onClose: () => void }) {
  const remove = async () => {
    await call('DELETE', `${FACTORS}${factor.id}/`).catch((refused: unknown) => {
      const isRequired = refused instanceof Refusal && refused.detail === LAST_REQUIRED
      throw isRequired ? refused.saying({ detail: t('factors.last-required') }) : refused
    })
    say(t('removed-one', { name: nameOf(factor) }))
    onClose()
    await invalidate(FACTORS)
  }
  return (
    <AskFirst
      title={t('ask', { action: t('remove'), name: nameOf(factor) })}
      text={t(isLast ? 'factors.remove-last' : 'factors.remove')}
      action={t('remove')}
      run={remove}
      onClose={onClose}
    />
  )
}
