"""Questions that an agent might put to the human about a mini task, knowing only the request and the signature."""

WELL_POSED = {
    "parcel": (
        "Which values of {1} are there, and what is the base price for each?",
        "What does a parcel cost for any other {1}?",
        "Above what {0} does it cost more?",
        "How is the extra for a heavy parcel calculated from the {0}?",
        "Is there a maximum price?",
    ),
    "bill": (
        "How is the basic part calculated from the {0}?",
        "How is the extra part calculated?",
        "Is there a fixed amount in the bill?",
        "What happens if {1} is true?",
        "Is there a minimum amount?",
    ),
    "loyalty": (
        "How are points earned from the {0}?",
        "How many {1} does somebody need for the bonus, and how large is it?",
        "What are the levels and their thresholds?",
        "In what format should the result be returned?",
    ),
    "shares": (
        "What keys should the returned dictionary have?",
        "How large is the extra, and how does it depend on the {1}?",
        "How is the part that each one pays calculated?",
        "Should the result be rounded?",
        "Is there a minimum that each one pays?",
    ),
    "grade": (
        "How are the points calculated from the {0} and the {1}?",
        "What are the possible grades, and at which points do they start?",
        "What is the result in all other cases?",
    ),
    "ready_time": (
        "How many minutes does it take, depending on the number of {1}?",
        "When is an order large, and how much longer does it take?",
        "When is an order too late, and what should be returned then?",
        "What is the format of the returned time?",
        "Anything else I should know?",
    ),
    "amount": (
        "What is the formula for the amount, given the {0}?",
        "How does the {1} change the amount?",
        "How should the result be rounded?",
        "What is the smallest amount?",
    ),
    "results": (
        "When does an entry of the list score, and how much?",
        "When do I have to subtract something?",
        "What is the bonus for, and how much is it?",
        "Is there anything else?",
    ),
    "readings": (
        "What are the groups called, i.e. the keys of the dictionary?",
        "Which values should be skipped as nonsense?",
        "What is the threshold for the first group?",
        "What are the limits of the middle group?",
        "What about the highest values?",
        "Anything else?",
    ),
    "shortlist": (
        "What keys do the dictionaries in {0} have?",
        "What are the limits for an item to be added?",
        "In what order should the result be sorted, and how many items should be returned?",
    ),
    "label": (
        "Should it be lower case or upper case?",
        "How are the words joined?",
        "What happens if there are only a few words?",
        "Is there a prefix at the beginning of the result?",
        "Is there a maximum length?",
    ),
    "word_game": (
        "How many points is each letter worth?",
        "Which letters are special, and what are they worth?",
        "Which letter should it start with to get more?",
        "When is a word long, and what is the bonus for that?",
    ),
}
