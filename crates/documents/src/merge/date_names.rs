//! The names of months and of days of the week, in their form inside a date.

/// The names of one language; weeks begin on Monday.
#[derive(Debug, PartialEq)]
pub struct DateNames {
    pub language: &'static str,
    pub months: [&'static str; 12],
    pub short_months: [&'static str; 12],
    pub days: [&'static str; 7],
    pub short_days: [&'static str; 7],
}

#[rustfmt::skip]
pub static MONTHS_AND_DAYS: [DateNames; 8] = [
    DateNames {
        language: "en",
        months: [
            "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
            "December",
        ],
        short_months: ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
        days: ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
        short_days: ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
    },
    DateNames {
        language: "de",
        months: [
            "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
            "Dezember",
        ],
        short_months: [
            "Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez.",
        ],
        days: ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"],
        short_days: ["Mo.", "Di.", "Mi.", "Do.", "Fr.", "Sa.", "So."],
    },
    DateNames {
        language: "fr",
        months: [
            "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
            "décembre",
        ],
        short_months: [
            "janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc.",
        ],
        days: ["lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"],
        short_days: ["lun.", "mar.", "mer.", "jeu.", "ven.", "sam.", "dim."],
    },
    DateNames {
        language: "es",
        months: [
            "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre",
            "diciembre",
        ],
        short_months: ["ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sept", "oct", "nov", "dic"],
        days: ["lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"],
        short_days: ["lun", "mar", "mié", "jue", "vie", "sáb", "dom"],
    },
    DateNames {
        language: "it",
        months: [
            "gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre", "ottobre",
            "novembre", "dicembre",
        ],
        short_months: ["gen", "feb", "mar", "apr", "mag", "giu", "lug", "ago", "set", "ott", "nov", "dic"],
        days: ["lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"],
        short_days: ["lun", "mar", "mer", "gio", "ven", "sab", "dom"],
    },
    DateNames {
        language: "nl",
        months: [
            "januari", "februari", "maart", "april", "mei", "juni", "juli", "augustus", "september", "oktober", "november",
            "december",
        ],
        short_months: ["jan", "feb", "mrt", "apr", "mei", "jun", "jul", "aug", "sep", "okt", "nov", "dec"],
        days: ["maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag", "zondag"],
        short_days: ["ma", "di", "wo", "do", "vr", "za", "zo"],
    },
    DateNames {
        language: "pt",
        months: [
            "janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro",
            "dezembro",
        ],
        short_months: [
            "jan.", "fev.", "mar.", "abr.", "mai.", "jun.", "jul.", "ago.", "set.", "out.", "nov.", "dez.",
        ],
        days: [
            "segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira", "sábado", "domingo",
        ],
        short_days: ["seg.", "ter.", "qua.", "qui.", "sex.", "sáb.", "dom."],
    },
    // The genitive, as in a date with its day.
    DateNames {
        language: "pl",
        months: [
            "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września", "października",
            "listopada", "grudnia",
        ],
        short_months: ["sty", "lut", "mar", "kwi", "maj", "cze", "lip", "sie", "wrz", "paź", "lis", "gru"],
        days: ["poniedziałek", "wtorek", "środa", "czwartek", "piątek", "sobota", "niedziela"],
        short_days: ["pon.", "wt.", "śr.", "czw.", "pt.", "sob.", "niedz."],
    },
];
