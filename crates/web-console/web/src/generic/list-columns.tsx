// The choice of the columns of a list, of their order, and of the density of its rows.

import type { Column } from '../api/shapes.ts'
import { Popup } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { type Key, labelOf, t } from '../texts.ts'
import { DENSITIES, type Density } from './address.ts'
import look from './generic.module.css'

const MOVES: [number, Key, string][] = [
  [-1, 'move-up', '↑'],
  [1, 'move-down', '↓'],
]

interface ColumnsProps {
  columns: Column[]
  /** The aliases of the visible columns, in their order. */
  chosen: string[]
  density: Density | undefined
  onChange: (change: { columns?: string[]; density?: Density | undefined }) => void
}

/** The popup that chooses visible columns, their order, and the density of the rows. */
export function Columns({ columns, chosen, density, onChange }: ColumnsProps) {
  const choose = (to: string[]) => onChange({ columns: to })
  const all = [
    ...chosen.flatMap((alias) => columns.find((column) => column.alias === alias) ?? []),
    ...columns.filter(({ alias }) => !chosen.includes(alias)),
  ]
  return (
    <Popup label={t('columns')} icon="columns-3">
      {() => (
        <>
          <ul className={look.columns}>
            {all.map((column) => {
              const at = chosen.indexOf(column.alias)
              return (
                <li key={column.alias}>
                  <label className={css.check}>
                    <input
                      type="checkbox"
                      checked={at >= 0}
                      disabled={at >= 0 && chosen.length === 1}
                      onChange={(event) =>
                        choose(
                          event.target.checked
                            ? [...chosen, column.alias]
                            : chosen.filter((alias) => alias !== column.alias),
                        )
                      }
                    />
                    {labelOf(column)}
                  </label>
                  {at >= 0 && (
                    <span className={look.moves}>
                      {MOVES.map(([step, text, sign]) => (
                        <button
                          key={text}
                          type="button"
                          className={css.remove}
                          aria-label={t(text, { name: labelOf(column) })}
                          disabled={at + step < 0 || at + step >= chosen.length}
                          onClick={() => choose(chosen.toSpliced(at, 1).toSpliced(at + step, 0, column.alias))}
                        >
                          {sign}
                        </button>
                      ))}
                    </span>
                  )}
                </li>
              )
            })}
          </ul>
          <fieldset className={look.density}>
            <legend>{t('look.density')}</legend>
            {[undefined, ...DENSITIES].map((choice) => (
              <label key={choice ?? ''} className={css.check}>
                <input
                  type="radio"
                  name="density"
                  checked={density === choice}
                  onChange={() => onChange({ density: choice })}
                />
                {t(choice ? `look.${choice}` : 'look.mine')}
              </label>
            ))}
          </fieldset>
        </>
      )}
    </Popup>
  )
}
