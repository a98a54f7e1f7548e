// The linked sign-ins of an account, one per line. Removing one asks first.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate, page } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Instance } from '../api/shapes.ts'
import { AskFirst } from '../generic/ask-first.tsx'
import look from '../generic/generic.module.css'
import { Turn } from '../generic/turn.tsx'
import { Button } from '../kit/buttons.tsx'
import { t } from '../texts.ts'

const SIZE = 25

const nameOf = ({ single_sign_on, issuer }: Instance) =>
  `${(single_sign_on as { name?: string } | null)?.name ?? issuer}`

/** Nothing without linked sign-ins, or if the caller may not view them. */
export function Identities({ path }: { path: string }) {
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(path, `limit=${SIZE}&offset=${at}`)
  const { data } = useQuery(query(offset))
  const [removing, setRemoving] = useState<Instance | undefined>()
  if (!data || (data.results.length === 0 && offset === 0)) return null
  const remove = async ({ id }: Instance) => {
    await call('DELETE', `${path}${id}/`)
    setRemoving(undefined)
    await invalidate(path)
  }
  return (
    <section className={look.section}>
      <h2>{t('identities')}</h2>
      <ul className={look.plain}>
        {data.results.map((one) => (
          <li key={`${one.id}`} className={look.member}>
            <span>{nameOf(one)}</span>
            <Button look="quiet" onPress={() => setRemoving(one)}>
              {t('remove')}
            </Button>
          </li>
        ))}
      </ul>
      <Turn page={data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {removing && (
        <AskFirst
          title={t('ask', { action: t('remove'), name: nameOf(removing) })}
          text={t('identities.question')}
          action={t('remove')}
          run={() => remove(removing)}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </section>
  )
}
