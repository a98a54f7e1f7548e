// People or groups that are in something: a list with those that can be added and taken away, many at once.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate, options, page } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Choice, Fields, Instance, Reference } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { MultiChooser } from '../kit/fields.tsx'
import { say } from '../kit/toasts.tsx'
import { isReference, nameOf } from '../kit/values.tsx'
import { type Key, t } from '../texts.ts'
import { Failure, isHidden, Reading, sayError } from './failure.tsx'
import look from './generic.module.css'
import { Turn } from './turn.tsx'

const SIZE = 25

const idOf = (line: Instance): number => Number(isReference(line.user) ? (line.user as Fields).id : line.id)
const textOf = (line: Instance): string =>
  isReference(line.user)
    ? nameOf(line.user as unknown as Reference)
    : `${line.name ?? line.full_name ?? line.username ?? line.id}`

export function Members({
  title,
  path,
  canChange,
  isByLine = false,
  isEachOwn = false,
}: {
  title: Key
  path: string
  canChange: boolean
  /** A removed member is identified by the id of the row, not of the user. */
  isByLine?: boolean
  /** Each line has an address of its own, at which it is taken away. */
  isEachOwn?: boolean
}) {
  const [offset, setOffset] = useState(0)
  const described = useQuery(options(path))
  const query = (at: number) => page(path, `limit=${SIZE}&offset=${at}`)
  const membersQuery = useQuery(query(offset))
  const [added, setAdded] = useState<Choice[]>([])
  const [error, setError] = useState<unknown>()
  const add = async () => {
    try {
      await call('POST', path, { body: added.map(({ value }) => Number(value)) })
      setAdded([])
      setError(undefined)
      say(t('saved'))
    } catch (refused) {
      setError(refused)
    }
    await invalidate(path)
  }
  const remove = async (line: Instance) => {
    const back = async () => {
      await call('POST', path, { body: [idOf(line)] }).catch((refused: unknown) => sayError(refused))
      await invalidate(path)
    }
    try {
      if (isEachOwn) await call('DELETE', `${path}${line.id}/`)
      else await call('DELETE', path, { body: [isByLine ? Number(line.id) : idOf(line)] })
      setError(undefined)
      say(t('removed-one', { name: textOf(line) }), { undo: () => void back() })
    } catch (refused) {
      setError(refused)
    }
    await invalidate(path)
  }
  if (isHidden(membersQuery)) return null
  const lines = membersQuery.data?.results ?? []
  const autocomplete = described.data?.batch?.autocomplete
  const most = described.data?.restrictions?.limit_items
  return (
    <section className={look.section}>
      <h2>
        {t(title)}{' '}
        {membersQuery.data && (
          <span className={css.optional}>
            {most
              ? t('count-of', { count: membersQuery.data.total_count ?? 0, of: most })
              : (membersQuery.data.total_count ?? '')}
          </span>
        )}
      </h2>
      <Reading of={[membersQuery]} />
      {error !== undefined && <Failure error={error} />}
      {lines.length === 0 && offset === 0 && membersQuery.data && <p className={look.none}>{t('nobody-yet')}</p>}
      <ul className={look.plain}>
        {lines.map((line) => (
          <li key={idOf(line)} className={look.member}>
            <span>{textOf(line)}</span>
            {canChange && (
              <button
                type="button"
                className={css.remove}
                aria-label={t('remove-one', { name: textOf(line) })}
                onClick={() => void remove(line)}
              >
                {'×'}
              </button>
            )}
          </li>
        ))}
      </ul>
      <Turn page={membersQuery.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {canChange && autocomplete && (
        <div className={look.adding}>
          <MultiChooser
            name={path}
            label={t('add-to', { name: t(title) })}
            isRequired
            autocomplete={autocomplete}
            value={added}
            onChange={setAdded}
          />
          {added.length > 0 && (
            <div>
              <Button look="primary" onPress={() => void add()}>
                {t('add-count', { count: added.length })}
              </Button>
            </div>
          )}
        </div>
      )}
    </section>
  )
}
